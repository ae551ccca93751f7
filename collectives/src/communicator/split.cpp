#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tandem/collectives.hpp>
#include <tandem/detail/board_sharing.hpp>
#include <utility>

#include "group.hpp"

namespace tandem {
namespace {

struct split_request {
  std::int32_t colour = 0;
  std::int32_t key = 0;
};

/// The ids in use by a rank's groups, as a bitmap that ranks exchange.
class used_ids {
 public:
  explicit used_ids(const fabric::group_ids& of) {
    for (std::size_t id = 0; id < of.size(); ++id) {
      if (of.test(id)) words_[id / 64] |= std::uint64_t{1} << id % 64;
    }
  }
  mutable_view view() noexcept { return words_; }
  /// The highest id that no rank uses; 0 if there is none (id 0 is always in use).
  std::uint16_t highest_free() const noexcept {
    for (std::size_t id = 64 * words_.size() - 1; id > 0; --id) {
      if ((words_[id / 64] >> id % 64 & 1) == 0) return static_cast<std::uint16_t>(id);
    }
    return 0;
  }

 private:
  std::array<std::uint64_t, 64> words_{};
};

/// The members with this colour, in the order of the new group.
std::vector<int> members_of(const std::vector<split_request>& requests, int colour) {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(requests.size()); ++r) {
    if (requests[static_cast<std::size_t>(r)].colour == colour) ranks.push_back(r);
  }
  std::ranges::stable_sort(
      ranks, {}, [&requests](int r) { return requests[static_cast<std::size_t>(r)].key; });
  return ranks;
}

}  // namespace

asio::awaitable<std::unique_ptr<communicator>> communicator::split(int colour, int key) {
  const std::shared_ptr<detail::group> g = group_;
  const split_request mine{colour, key};
  std::vector<split_request> requests(static_cast<std::size_t>(g->size()));
  used_ids taken(*g->over().groups());
  const const_view my_request(&mine, sizeof mine);
  const mutable_view all_requests(requests);
  co_await all_gather(*this, my_request, all_requests);
  // Groups of different colours have no rank in common, so one id is enough for all of them.
  co_await all_reduce(*this, taken.view(), data_type::uint64, reduce_op::bor);
  const std::uint16_t id = taken.highest_free();
  if (id == 0) {
    throw error(errc::limit_exceeded, "split: all 4095 ids of groups are taken",
                "destroy communicators that are no longer needed");
  }
  std::unique_ptr<communicator> part;
  if (colour < 0) co_return part;
  std::vector<int> members = members_of(requests, colour);
  part = co_await create_group(std::move(members), id);
  co_return part;
}

asio::awaitable<std::unique_ptr<communicator>> communicator::create_group(std::vector<int> members,
                                                                          std::uint16_t group_id) {
  const std::shared_ptr<detail::group> g = group_;
  for (int& r : members) {
    if (r < 0 || r >= g->size()) {
      throw error(errc::bad_input,
                  fmt::format("create_group: no rank {} in a group of {}", r, g->size()));
    }
    r = g->member(r);
  }
  auto part = std::make_unique<communicator>(g->over(), g->options(), std::move(members), group_id);
  if (!g->has_adopted()) co_return part;
  facts known = part->internals()->facts_from(*g);
  if (may_share_board(g->over().kind(), known.host_of_rank)) {
    known.has_board = co_await detail::share_board(*part);
  }
  part->internals()->adopt(plan::of(known, g->options()));
  co_return part;
}

}  // namespace tandem
