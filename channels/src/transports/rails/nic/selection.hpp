#pragma once

#include <string>
#include <vector>

#include "transports/rails/nic/nic.hpp"
#include "transports/rails/nic/rail_spec.hpp"

namespace tandem::rails {

/// One end of a rail: an interface and the addresses at which it can be reached.
struct rail_end {
  std::size_t nic = 0;  ///< index into the interfaces that were chosen from
  std::vector<nic_address> addresses;
};

/// Whether an interface was selected.
struct interface_decision {
  bool chosen = false;
  std::string why;  ///< "chosen: up, ethernet, 10.1.0.2/24", "left out: down"
};

struct selection {
  std::vector<interface_decision> decisions;  ///< one for each interface, in their order
  std::vector<rail_end> rails;                ///< in the order in which they are paired
  std::vector<std::string> notes;  ///< warnings about likely typing errors, one line each
};

/// Selects rails, with the reason for every interface.
///
/// By default: interfaces that are up, have a carrier and a usable address, of the most capable
/// level present: ports (and bonds, vlans and bridges on ports) of the faster of ethernet and
/// InfiniBand, else wireless, else interfaces into another network namespace (all that containers
/// have), else tunnels, else loopback. Within a level, those slower than a quarter of the fastest
/// are left out, as UCX does by default (`ucp_context.c`): they would delay the end of a message.
/// Listed interfaces are used whatever their kind, in the order of the list; each loopback address
/// is a rail of its own.
///
/// @param loopback_only  only loopback may be used: the job has no secret
/// @par Errors `errc::bad_option`: a listed interface, address or subnet that this machine does not
/// have, with the nearest name.
selection choose(const std::vector<nic>& nics, const rail_spec& spec, bool loopback_only);

/// @par Errors `errc::bad_option` where no rail was selected: the reasons, and what to do.
void require_rails(const std::vector<nic>& nics, const selection& chosen);

}  // namespace tandem::rails
