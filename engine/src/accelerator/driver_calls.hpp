#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tandem/accelerator.hpp>

namespace tandem::devices {

/// A failed driver call, as text.
struct call_failure {
  std::string_view call;  ///< "cuMemAlloc(4096 bytes)"
  std::string name;       ///< "CUDA_ERROR_OUT_OF_MEMORY"
  std::string text;       ///< "out of memory"
  std::string_view advice;
};

/// While it lives, this thread's calls are allowed although another thread captures a graph. In the
/// mode in which programs capture (PyTorch's too), such a call fails, and so does the capture: as
/// the program does not know when its operations in progress call the driver, it could not capture.
/// @tparam Mode  of the vendor; @param exchange  null: the driver has no such function
/// @param last_error  takes the thread's last error, which is the user's; null: there is none
template <class Mode, class Result>
class relaxed_capture {
 public:
  using function = Result (*)(Mode* mode);
  explicit relaxed_capture(function exchange, Result (*last_error)() = nullptr) noexcept
      : exchange_(exchange), last_error_(last_error), is_relaxed_(swap()) {}
  ~relaxed_capture() {
    if (is_relaxed_) swap();
  }
  relaxed_capture(const relaxed_capture&) = delete;
  relaxed_capture& operator=(const relaxed_capture&) = delete;

 private:
  bool swap() noexcept {
    if (exchange_ == nullptr) return false;
    if (exchange_(&other_) == Result{}) return true;
    if (last_error_ != nullptr) last_error_();
    return false;
  }

  const function exchange_;
  Result (*const last_error_)();
  Mode other_ = Mode::relaxed;
  const bool is_relaxed_;
};

/// What `ask` returns of a stream. Its handle names its device, but not those of the default
/// streams, which are small numbers: for them, and where the driver wants one all the same, `Scope`
/// makes the device current.
template <class Scope, class Device, class Result, class Ask>
Result ask_of_stream(Device& on, accelerator::stream which, Result no_context, Ask ask) {
  const bool is_default = reinterpret_cast<std::uintptr_t>(which) <= 2;
  const Result answer = is_default ? no_context : ask();
  if (answer != no_context) return answer;
  const Scope here(on);
  return ask();
}

/// "cuMemAlloc(4096 bytes) on cuda:0 (NVIDIA H200): CUDA_ERROR_OUT_OF_MEMORY: out of memory".
error call_error(const call_failure& failure, std::string_view on);

/// NUMA node of the host for the device at this PCI address; -1: unknown.
int numa_node_of(const std::string& pci);

/// Throws `errc::used_after_fork` in a child of the process that called it first.
/// @param on  name of the device, for the text
void refuse_after_fork(std::string_view on);

/// 16 bytes as 32 hexadecimal digits.
std::string hexadecimal(const char* bytes);

std::string lower_case(std::string text);

}  // namespace tandem::devices
