#pragma once

#include <memory>
#include <string_view>
#include <tandem/accelerator.hpp>

namespace tandem::detail {

/// The kernels of slot_kernel.hpp and staged_kernel.hpp on one accelerator.
class stream_kernels {
 public:
  static constexpr const char* names[] = {"tandem_carry_messages", "tandem_carry_few",
                                          "tandem_copy_staged"};

  /// The process-wide instance for the accelerator, shared by all users.
  /// @par Cost  of the first: `compile_kernels`.
  /// @par Errors thrown: `errc::device_failed`: there is no compiler, or it or the driver fails.
  static std::shared_ptr<const stream_kernels> of(accelerator& on);

  explicit stream_kernels(accelerator& on);
  ~stream_kernels();
  stream_kernels(const stream_kernels&) = delete;
  stream_kernels& operator=(const stream_kernels&) = delete;

  accelerator::kernel carry_messages() const noexcept { return carry_messages_; }
  /// Of a `short_slot_work`.
  accelerator::kernel carry_few() const noexcept { return carry_few_; }
  accelerator::kernel copy_staged() const noexcept { return copy_staged_; }

 private:
  accelerator& on_;
  accelerator::module module_ = nullptr;
  accelerator::kernel carry_messages_ = nullptr;
  accelerator::kernel carry_few_ = nullptr;
  accelerator::kernel copy_staged_ = nullptr;
};

namespace device_text {
extern const std::string_view stream_kernels;  // made from the headers at configure time
}

}  // namespace tandem::detail
