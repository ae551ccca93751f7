#include <fmt/format.h>

#include <atomic>
#include <tandem/detail/cuda.hpp>

#include "drivers/opening.hpp"
#include "drivers/symbols.hpp"

namespace tandem::detail {
namespace {

constexpr const char* cuda_library = "libcuda.so.1";

std::atomic<const cuda*> cuda_replacement{nullptr};
std::atomic<unsigned> cuda_replaced_times{0};

void fill(cuda& into, symbols& in) {
#define TANDEM_FUNCTION(member, name) in.find(into.member, #name);
#define TANDEM_OPTIONAL_FUNCTION(member, name) in.find_optional(into.member, #name);
#include "drivers/cuda_functions.inc"
}

struct opened_cuda {
  cuda functions{};
  std::string why;  ///< empty: available

  explicit opened_cuda(opening_step& step) {
    step = "loading libcuda.so.1";
    void* const found = ::dlopen(cuda_library, RTLD_NOW | RTLD_LOCAL);
    if (found == nullptr) {
      const char* const message = ::dlerror();
      why = fmt::format("no CUDA here: {}; install NVIDIA's driver, 11.2 or newer",
                        message != nullptr ? message : cuda_library);
      return;
    }
    symbols in(found);
    fill(functions, in);
    if (!in.missing().empty()) {
      why = fmt::format("no CUDA here: {} has no {}; install NVIDIA's driver, 11.2 or newer",
                        cuda_library, in.missing());
      return;
    }
    step = "cuInit";
    const cu::result init_status = functions.init(0);
    if (init_status == cu::success) return;
    if (init_status == cu::stub_library) {
      why = fmt::format(
          "no CUDA here: the {} that was found is the toolkit's stub for linking; remove "
          "its folder from LD_LIBRARY_PATH",
          cuda_library);
      return;
    }
    const char* name = nullptr;
    functions.error_name(init_status, &name);
    why = fmt::format(
        "no CUDA here: cuInit returned {}; check that nvidia-smi lists a GPU and that "
        "/dev/nvidia* can be opened",
        name != nullptr ? name : std::to_string(init_status));
  }
};

}  // namespace

const cuda* find_cuda(std::string& why) {
  if (const cuda* const by = cuda_replacement.load()) return by;
  static auto& here = *new opening<opened_cuda>;
  const opened_cuda* const found = here.get("CUDA", why);
  return found != nullptr ? &found->functions : nullptr;
}

void replace_cuda(const cuda* by) noexcept {
  cuda_replacement.store(by);
  ++cuda_replaced_times;
}

unsigned cuda_replacements() noexcept {
  return cuda_replaced_times.load();
}

}  // namespace tandem::detail
