#include <fmt/format.h>

#include <tandem/channels.hpp>
#include <tandem/detail/trust.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "transports/rails/nic/nic.hpp"
#include "transports/rails/nic/selection.hpp"
#include "transports/rails/verbs/capabilities.hpp"
#include "transports/rails/verbs/ports.hpp"
#include "transports/rails/verbs/rdma_nics.hpp"

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

void explain_rdma(const verbs::local_ports& here, const nic& on, const std::vector<nic_address>& at,
                  rail_choice& into) {
  if (here.all.empty()) {
    into.rdma_reason = here.why_none;
    return;
  }
  verbs::rdma_choice found = verbs::choose_rdma(here.all, on, at);
  std::string none;
  const detail::ibverbs* const driver = detail::find_ibverbs(none);
  if (found.end && driver != nullptr) {
    for (const verbs::capability& one :
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
  const verbs::local_ports rdma = verbs::find_local_ports(options.rdma);
  for (const std::string& problem : rdma.problems) log(log_level::warning, "rails", problem);
  std::vector<rail_choice> all;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    const nic& one = nics[i];
    rail_choice choice;
    choice.interface = one.name;
    choice.kind = name(one.kind);
    choice.mac = one.mac;
    for (const nic_address& a : one.addresses) {
      choice.addresses.push_back(fmt::format("{}/{}", a.where.to_string(), a.prefix));
    }
    choice.speed_mbit = one.speed_mbit;
    choice.numa_node = one.numa_node;
    choice.mtu = one.mtu;
    choice.up = one.up && one.carrier;
    choice.chosen = chosen.decisions[i].chosen;
    choice.reason = chosen.decisions[i].why;
    explain_rdma(rdma, one, used(chosen, i), choice);
    all.push_back(std::move(choice));
  }
  return all;
}

device_direct_nics find_device_direct_nics(memory_kind kind, bool exports_dma_buf) {
  const verbs::local_ports here = verbs::find_local_ports(rdma_use::automatic);
  device_direct_nics found{{}, here.why_none};
  std::string none;
  const detail::ibverbs* const driver = detail::find_ibverbs(none);
  for (const verbs::port& one : here.all) {
    if (!found.all.empty() && found.all.back().device == one.device) continue;
    verbs::registration_choice how =
        verbs::probe_registration(*driver, one.device, kind, exports_dma_buf);
    found.all.push_back(
        {one.device, how.how != verbs::registration_method::none, std::move(how.why)});
  }
  return found;
}

}  // namespace tandem::rails
