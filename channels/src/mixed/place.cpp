#include "mixed/place.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "shm/connect.hpp"

namespace tandem::mixed {

std::string place::text() const {
  return far + '\n' + shares;
}

place place::parse(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return {};
  return {std::string(text.substr(0, end)), std::string(text.substr(end + 1))};
}

std::string shared_by_neighbours(const settings& options) {
  return fmt::format("{} user {} {}", shm::host_identity(), ::geteuid(), options.host);
}

bool share_memory(const place& one, const place& other) noexcept {
  return !one.shares.empty() && one.shares == other.shares;
}

}  // namespace tandem::mixed
