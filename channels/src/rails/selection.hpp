#pragma once

#include <string>
#include <vector>

#include "rails/nic.hpp"
#include "rails/rail_spec.hpp"

namespace tandem::rails {

/// One end of a rail: an interface and the addresses at which it can be reached.
struct rail_end {
  std::size_t nic = 0;  ///< index into the interfaces that were chosen from
  std::vector<nic_address> addresses;
};

/// What became of an interface.
struct verdict {
  bool chosen = false;
  std::string why;  ///< "chosen: up, ethernet, 10.1.0.2/24", "left out: down"
};

struct selection {
  std::vector<verdict> verdicts;   ///< one for each interface, in their order
  std::vector<rail_end> rails;     ///< in the order in which they are paired
  std::vector<std::string> notes;  ///< words that look like slips, one line each
};

/// Chooses rails, and says of every interface why or why not.
///
/// By itself: interfaces that are up, have a carrier and a usable address, of the most capable
/// level there is: ports (and bonds, vlans and bridges on ports) of the faster of ethernet and
/// InfiniBand, else wireless, else what leads to another network namespace (containers have nothing
/// else), else tunnels, else loopback. Of a level, those slower than a quarter of the fastest are
/// left out, as UCX does by default (`ucp_context.c`): they would hold up a message's end. Listed
/// ones are taken whatever they are, in the order of the list; loopback addresses are a rail each.
///
/// @param loopback_only  nothing but loopback may be used: the job has no secret
/// @par Errors `errc::bad_option`: a listed interface, address or subnet that is not here, with the
/// nearest one.
selection choose(const std::vector<nic>& nics, const rail_spec& spec, bool loopback_only);

/// @par Errors `errc::bad_option` where no rail was chosen: why not, and what to do.
void require_rails(const std::vector<nic>& nics, const selection& chosen);

}  // namespace tandem::rails
