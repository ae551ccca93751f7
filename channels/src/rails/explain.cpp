#include <fmt/format.h>

#include <tandem/channels/rails.hpp>
#include <tandem/log.hpp>
#include <tandem/trust.hpp>
#include <utility>

#include "rails/nic.hpp"
#include "rails/selection.hpp"
#include "verbs/abilities.hpp"
#include "verbs/ports_here.hpp"
#include "verbs/rdma_nics.hpp"

namespace tandem::rails {
namespace {

/// What the rails on an interface use of it; empty: none is on it.
std::vector<nic_address> used(const selection& chosen, std::size_t nic) {
  std::vector<nic_address> all;
  for (const rail_end& one : chosen.rails) {
    if (one.nic == nic) all.insert(all.end(), one.addresses.begin(), one.addresses.end());
  }
  return all;
}

void tell_rdma(const verbs::ports_here& here, const nic& on, const std::vector<nic_address>& at,
               rail_choice& into) {
  if (here.all.empty()) {
    into.rdma_reason = here.why_none;
    return;
  }
  verbs::rdma_choice found = verbs::choose_rdma(here.all, on, at);
  std::string none;
  const detail::ibverbs* const driver = detail::find_ibverbs(none);
  if (found.end && driver != nullptr) {
    for (const verbs::ability& one :
         verbs::probe(*driver, found.end->device, found.end->max_message_bytes)) {
      (one.has ? into.rdma_can : into.rdma_cannot).push_back(verbs::describe(one));
    }
  }
  (found.end ? into.rdma : into.rdma_reason) = std::move(found.why);
  into.rdma_left_out = std::move(found.left_out);
}

}  // namespace

std::vector<rail_choice> explain_rails(const settings& options) {
  const rail_spec spec = parse_rails(options.rails);
  const std::vector<nic> nics = find_nics();
  const bool is_trusted = !trust::job_secret(options).empty() || !options.certificate_file.empty();
  const selection chosen = choose(nics, spec, !is_trusted && !options.insecure);
  for (const std::string& note : chosen.notes) log(log_level::warning, "rails", note);
  const verbs::ports_here rdma = verbs::find_ports_here(options.rdma);
  for (const std::string& problem : rdma.problems) log(log_level::warning, "rails", problem);
  std::vector<rail_choice> all;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    const nic& one = nics[i];
    rail_choice told;
    told.interface = one.name;
    told.kind = name(one.kind);
    told.mac = one.mac;
    for (const nic_address& a : one.addresses) {
      told.addresses.push_back(fmt::format("{}/{}", a.where.to_string(), a.prefix));
    }
    told.speed_mbit = one.speed_mbit;
    told.numa_node = one.numa_node;
    told.mtu = one.mtu;
    told.up = one.up && one.carrier;
    told.chosen = chosen.verdicts[i].chosen;
    told.reason = chosen.verdicts[i].why;
    tell_rdma(rdma, one, used(chosen, i), told);
    all.push_back(std::move(told));
  }
  return all;
}

nics_that_reach find_nics_that_reach(memory_kind kind, bool exports_dma_buf) {
  const verbs::ports_here here = verbs::find_ports_here(rdma_use::automatic);
  nics_that_reach found{{}, here.why_none};
  std::string none;
  const detail::ibverbs* const driver = detail::find_ibverbs(none);
  for (const verbs::port& one : here.all) {
    if (!found.all.empty() && found.all.back().device == one.device) continue;
    verbs::memory_choice how = verbs::probe_memory(*driver, one.device, kind, exports_dma_buf);
    found.all.push_back({one.device, how.how != verbs::memory_way::none, std::move(how.why)});
  }
  return found;
}

}  // namespace tandem::rails
