#include "transports/rails/verbs/port_attributes.hpp"

#include <algorithm>
#include <cstring>

namespace tandem::verbs {
namespace {

constexpr int max_gids_of_port = 16'384;

gid_kind kind_of(std::uint32_t type) noexcept {
  if (type == IBV_GID_TYPE_ROCE_V2) return gid_kind::roce_v2;
  return type == IBV_GID_TYPE_ROCE_V1 ? gid_kind::roce_v1 : gid_kind::infiniband;
}

}  // namespace

std::size_t gid_table_size(const ibv_port_attr& of) noexcept {
  return static_cast<std::size_t>(std::clamp(of.gid_tbl_len, 0, max_gids_of_port));
}

int read_gids(const detail::ibverbs& driver, ibv_context* of, std::size_t entries,
              std::vector<ibv_gid_entry>& into) {
  into.resize(entries);
  const ssize_t count =
      driver.query_gid_table(of, into.data(), into.size(), 0, sizeof(ibv_gid_entry));
  if (count < 0) return static_cast<int>(-count);
  into.resize(std::min(entries, static_cast<std::size_t>(count)));
  std::stable_sort(into.begin(), into.end(),
                   [](const auto& a, const auto& b) { return a.gid_index < b.gid_index; });
  return 0;
}

gid_entry entry_of(const ibv_gid_entry& from) noexcept {
  gid_entry entry;
  entry.index = static_cast<int>(from.gid_index);
  std::memcpy(entry.raw.data(), from.gid.raw, entry.raw.size());
  entry.kind = kind_of(from.gid_type);
  entry.interface_index = static_cast<int>(from.ndev_ifindex);
  return entry;
}

}  // namespace tandem::verbs
