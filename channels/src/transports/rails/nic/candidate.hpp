#pragma once

#include <string>
#include <vector>

#include "transports/rails/nic/nic.hpp"

namespace tandem::rails {

/// An interface while rails are selected.
struct candidate {
  const nic* interface = nullptr;
  std::size_t index = 0;
  std::vector<nic_address> addresses;  ///< those that the selectors leave
  std::size_t list_position = 0;       ///< index of the selector that lists it
  std::string rejection;               ///< why it is left out; empty: it is eligible
};

/// The kind of an interface for messages: "ethernet", "veth pair of this machine".
std::string kind_text(const nic& interface);

/// Leaves out, with the reason, all but the most capable interfaces: the default where no interface
/// is listed. The rules are those of `choose`.
void keep_most_capable(std::vector<candidate>& all);

}  // namespace tandem::rails
