#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <tandem/accelerator.hpp>

#include "device_source.hpp"
#include "kernels.hpp"

namespace tandem::detail {

/// The kernels of one accelerator. Those of a type are compiled when the first of them is needed,
/// which takes a second or two, or found in the user's cache, which takes a millisecond; the call
/// that needs them waits for it. They give the same bits as the processor's.
/// @par Threads  Any.
/// @par Errors  `errc::device_failed`: no compiler, or it or the driver refuses.
class device_kernels {
 public:
  /// Those of the process, for as long as somebody keeps them. @pre so long lives the accelerator.
  static std::shared_ptr<device_kernels> of(accelerator& on);

  explicit device_kernels(accelerator& on) : on_(on) {}
  ~device_kernels();
  device_kernels(const device_kernels&) = delete;
  device_kernels& operator=(const device_kernels&) = delete;

  accelerator& on() const noexcept { return on_; }

  /// Compiles those of a type now, or finds them.
  void prepare(data_type type) { find(type, kernel_work::sum); }
  /// Queue what `kernel_table` has: `into`, `a`, `b` and `from` are memory of the device, each
  /// `into` itself or apart from it and aligned to its elements.
  void combine(data_type type, kernel_work work, void* into, const void* a, const void* b,
               std::size_t count, accelerator::stream stream);
  void scale(data_type type, kernel_work work, void* into, const void* from, std::size_t count,
             double by, accelerator::stream stream);

 private:
  struct of_type {
    std::mutex mutex;
    accelerator::module module = nullptr;
    std::array<accelerator::kernel, kernel_work_count> kernels{};
  };

  accelerator::kernel find(data_type type, kernel_work work);
  void load(data_type type, of_type& into);
  void launch(data_type type, kernel_work work, std::size_t count, accelerator::stream stream,
              void** arguments);

  accelerator& on_;
  std::array<of_type, data_type_count> types_;
};

/// What the compiler makes of a type's source for an accelerator of that kind and architecture.
/// @par Errors `errc::device_failed`, with what the compiler has said.
std::string compile_kernels(data_type type, memory_kind kind, const std::string& architecture);

}  // namespace tandem::detail
