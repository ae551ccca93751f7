#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <tandem/accelerator.hpp>

#include "device_source.hpp"
#include "kernels.hpp"

namespace tandem::detail {

/// The kernels of one accelerator. Those of a type are compiled on first use, which takes a second
/// or two, or loaded from the user's cache, which takes a millisecond; the call that needs them
/// blocks meanwhile. They give the same bits as the host's kernels.
/// @par Threads  Any.
/// @par Errors  `errc::device_failed`: there is no compiler, or the compiler or the driver fails.
class device_kernels {
 public:
  /// The process-wide instance for the accelerator, shared by all users.
  /// @pre the accelerator outlives it.
  static std::shared_ptr<device_kernels> of(accelerator& on);

  explicit device_kernels(accelerator& on) : on_(on) {}
  ~device_kernels();
  device_kernels(const device_kernels&) = delete;
  device_kernels& operator=(const device_kernels&) = delete;

  accelerator& on() const noexcept { return on_; }

  /// Compiles or loads the kernels of a type now.
  void prepare(data_type type) { find(type, kernel_work::sum); }
  /// The kernel of `exchange_kernel_name`, for a launch as its source says. @pre the device has
  /// them
  accelerator::kernel find_exchange(data_type type, kernel_work work);
  /// Queue the operations of `kernel_table`: `into`, `a`, `b` and `from` are in device memory and
  /// aligned to their elements; the inputs are identical with `into` or do not overlap it.
  void combine(data_type type, kernel_work work, void* into, const void* a, const void* b,
               std::size_t count, accelerator::stream stream);
  void scale(data_type type, kernel_work work, void* into, const void* from, std::size_t count,
             double by, accelerator::stream stream);

 private:
  struct of_type {
    std::mutex mutex;
    accelerator::module module = nullptr;
    std::array<accelerator::kernel, kernel_work_count> kernels{}, exchanges{};
  };

  /// Loads them if need be.
  std::unique_lock<std::mutex> lock(of_type& kernels, data_type type);
  accelerator::kernel find(data_type type, kernel_work work);
  void load(data_type type, of_type& into);
  void launch(data_type type, kernel_work work, std::size_t count, accelerator::stream stream,
              void** arguments);

  accelerator& on_;
  std::array<of_type, data_type_count> types_;
};

}  // namespace tandem::detail
