#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tandem/accelerator.hpp>

#include "arguments.hpp"
#include "failure.hpp"

namespace tandem::nccl_abi {
namespace {

/// The only difference between libnccl.so.2 and librccl.so.1: both use whatever devices the process
/// finds, and where it finds those of both vendors, the library that the program names decides.
#ifdef TANDEM_RCCL
constexpr std::array preferred_kinds{memory_kind::hip, memory_kind::cuda};
#else
constexpr std::array preferred_kinds{memory_kind::cuda, memory_kind::hip};
#endif

bool uses_host_memory() {
  const char* const value = std::getenv("TANDEM_NCCL_HOST");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

own_memory memory_of_thread() {
  if (uses_host_memory()) return {};
  std::string why_none;
  for (const memory_kind kind : preferred_kinds) {
    const accelerators all = find_accelerators(kind);
    if (!all.found.empty()) return {kind, current_device(kind)};
    why_none += (why_none.empty() ? "" : "; ") + all.why_none;
  }
  throw failure(system_error,
                fmt::format("{}; TANDEM_NCCL_HOST=1 runs programs whose buffers are in the memory "
                            "of the host",
                            why_none));
}

}  // namespace tandem::nccl_abi
