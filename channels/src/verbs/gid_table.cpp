#include "verbs/gid_table.hpp"

#include <algorithm>

namespace tandem::verbs {
namespace {

constexpr int max_gids_of_port = 16'384;

}  // namespace

std::size_t gid_places(const ibv_port_attr& of) noexcept {
  return static_cast<std::size_t>(std::clamp(of.gid_tbl_len, 0, max_gids_of_port));
}

int read_gids(const detail::ibverbs& driver, ibv_context* of, std::size_t places,
              std::vector<ibv_gid_entry>& into) {
  into.resize(places);
  const ssize_t count =
      driver.query_gid_table(of, into.data(), into.size(), 0, sizeof(ibv_gid_entry));
  if (count < 0) return static_cast<int>(-count);
  into.resize(std::min(places, static_cast<std::size_t>(count)));
  std::stable_sort(into.begin(), into.end(),
                   [](const auto& a, const auto& b) { return a.gid_index < b.gid_index; });
  return 0;
}

}  // namespace tandem::verbs
