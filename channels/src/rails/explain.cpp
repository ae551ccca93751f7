#include <fmt/format.h>

#include <tandem/channels/rails.hpp>
#include <tandem/log.hpp>
#include <tandem/trust.hpp>

#include "rails/nic.hpp"
#include "rails/selection.hpp"

namespace tandem::rails {

std::vector<rail_choice> explain_rails(const settings& options) {
  const rail_spec spec = parse_rails(options.rails);
  const std::vector<nic> nics = find_nics();
  const bool is_trusted = !trust::job_secret(options).empty() || !options.certificate_file.empty();
  const selection chosen = choose(nics, spec, !is_trusted && !options.insecure);
  for (const std::string& note : chosen.notes) log(log_level::warning, "rails", note);
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
    all.push_back(std::move(told));
  }
  return all;
}

}  // namespace tandem::rails
