#include "transports/rails/verbs/local_ports.hpp"

#include <fmt/format.h>

#include <utility>

namespace tandem::verbs {

local_ports find_local_ports(rdma_use asked) {
  local_ports found;
  if (asked == rdma_use::off) {
    found.why_none = "no RDMA here: --rdma or TANDEM_RDMA is off";
    return found;
  }
  const detail::ibverbs* const driver = detail::find_ibverbs(found.why_none);
  if (driver == nullptr) return found;
  std::vector<std::string> problems;
  found.all = find_ports(*driver, &problems);
  if (!found.all.empty()) {
    found.problems = std::move(problems);
  } else if (problems.empty()) {
    found.why_none = "no RDMA here: no device; rdma link and ibv_devices list them";
  } else {
    found.why_none = fmt::format("no RDMA here: {}", problems.front());
    if (problems.size() > 1) found.why_none += fmt::format(" ({} more)", problems.size() - 1);
  }
  return found;
}

}  // namespace tandem::verbs
