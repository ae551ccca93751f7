#include <fmt/format.h>

#include <atomic>
#include <tandem/detail/hip.hpp>

#include "drivers/opening.hpp"
#include "drivers/symbols.hpp"

namespace tandem::detail {
namespace {

constexpr const char* libraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                     "libamdhip64.so"};
constexpr const char* hsa_libraries[] = {"libhsa-runtime64.so.1", "libhsa-runtime64.so"};
constexpr const char* install_advice =
    "install ROCm 5.3 or newer, or put its libraries' folder into "
    "LD_LIBRARY_PATH";

std::atomic<const hip*> hip_replacement{nullptr};
std::atomic<unsigned> hip_replaced_times{0};

void fill(hip& into, symbols& in) {
#define TANDEM_FUNCTION(member, name) in.find(into.member, #name);
#define TANDEM_OPTIONAL_FUNCTION(member, name) in.find_optional(into.member, #name);
#include "drivers/hip_functions.inc"
}

/// dlsym also searches the dependencies of a handle: HIP's handle gives the HSA that HIP uses.
bool fill(hsa& into, void* handle) {
  symbols in(handle);
#define TANDEM_FUNCTION(member, name) in.find(into.member, #name);
#define TANDEM_OPTIONAL_FUNCTION(member, name) in.find_optional(into.member, #name);
#include "drivers/hsa_functions.inc"
  if (in.missing().empty()) return true;
  into = {};
  return false;
}

struct opened_hip {
  hip functions{};
  std::string why;  ///< empty: available

  explicit opened_hip(opening_step& step) {
    step = "loading libamdhip64";
    std::string failure;
    void* const found = open_library(libraries, "libamdhip64", failure);
    if (found == nullptr) {
      why = fmt::format("no HIP here: {}; {}", failure, install_advice);
      return;
    }
    symbols in(found);
    fill(functions, in);
    if (!in.missing().empty()) {
      why = fmt::format("no HIP here: the libamdhip64 that was found has no {}; {}", in.missing(),
                        install_advice);
      return;
    }
    if (!fill(functions.below, found)) {
      void* const below = open_library(hsa_libraries, "libhsa-runtime64", failure);
      if (below != nullptr) fill(functions.below, below);
    }
    initialise(step);
  }

  void initialise(opening_step& step) {
    int count = 0;
    step = "hipInit";
    const amd::result init_status = functions.init(0);
    const amd::result count_status =
        init_status == amd::success ? functions.device_count(&count) : init_status;
    if (count_status == amd::success && count > 0) return;
    const char* const name = functions.error_name(count_status);
    const std::string message =
        fmt::format("{} returned {}", init_status == amd::success ? "hipGetDeviceCount" : "hipInit",
                    count_status == amd::success ? "0"
                    : name != nullptr            ? name
                                                 : std::to_string(count_status));
    functions.last_error();
    why = no_device_reason(message, kfd_open_error());
  }
};

}  // namespace

const hip* find_hip(std::string& why) {
  if (const hip* const by = hip_replacement.load()) return by;
  static auto& here = *new opening<opened_hip>;
  const opened_hip* const found = here.get("HIP", why);
  return found != nullptr ? &found->functions : nullptr;
}

void replace_hip(const hip* by) noexcept {
  hip_replacement.store(by);
  ++hip_replaced_times;
}

unsigned hip_replacements() noexcept {
  return hip_replaced_times.load();
}

}  // namespace tandem::detail
