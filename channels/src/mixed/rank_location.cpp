#include "mixed/rank_location.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "fabric/host_identity.hpp"

namespace tandem::mixed {

std::string rank_location::text() const {
  return inter_host + '\n' + sharing_domain;
}

rank_location rank_location::parse(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return {};
  return {std::string(text.substr(0, end)), std::string(text.substr(end + 1))};
}

std::string local_sharing_domain(const settings& options) {
  return fmt::format("{} user {} {}", transport::host_identity(), ::geteuid(), options.host);
}

bool share_memory(const rank_location& one, const rank_location& other) noexcept {
  return !one.sharing_domain.empty() && one.sharing_domain == other.sharing_domain;
}

}  // namespace tandem::mixed
