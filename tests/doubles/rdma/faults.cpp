#include "doubles/rdma/faults.hpp"

#include <algorithm>

namespace tandem::test::rdma {

void injected_faults::fail_next(call which, int error, int after) {
  calls_.push_back({which, error, after});
}

void injected_faults::fail_next_wr(ibv_wc_status status, const std::string& device) {
  requests_.push_back({status, device});
}

int injected_faults::take_error(call which) {
  int error = 0;
  for (auto at = calls_.begin(); at != calls_.end();) {
    if (at->which != which) {
      ++at;
    } else if (at->after > 0) {
      --at++->after;
    } else if (error == 0) {
      error = at->error;
      at = calls_.erase(at);
    } else {
      ++at;
    }
  }
  return error;
}

std::optional<ibv_wc_status> injected_faults::take_status(const std::string& device) {
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const auto& one) {
    return one.device.empty() || one.device == device;
  });
  if (found == requests_.end()) return std::nullopt;
  const ibv_wc_status status = found->status;
  requests_.erase(found);
  return status;
}

}  // namespace tandem::test::rdma
