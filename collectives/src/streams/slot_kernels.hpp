#pragma once

#include <memory>
#include <string_view>
#include <tandem/accelerator.hpp>

namespace tandem::detail {

/// The kernel of slot_kernel.hpp on one accelerator of NVIDIA.
class slot_kernels {
 public:
  static constexpr const char* name = "tandem_carry_messages";

  /// The process-wide instance for the accelerator, shared by all users.
  /// @par Cost  of the first: `compile_kernels`.
  /// @par Errors thrown: `errc::device_failed`: there is no compiler, or it or the driver fails.
  static std::shared_ptr<const slot_kernels> of(accelerator& on);

  explicit slot_kernels(accelerator& on);
  ~slot_kernels();
  slot_kernels(const slot_kernels&) = delete;
  slot_kernels& operator=(const slot_kernels&) = delete;

  accelerator::kernel carry_messages() const noexcept { return carry_messages_; }

 private:
  accelerator& on_;
  accelerator::module module_ = nullptr;
  accelerator::kernel carry_messages_ = nullptr;
};

namespace device_text {
extern const std::string_view slot_kernel;  // made from the headers at configure time
}

}  // namespace tandem::detail
