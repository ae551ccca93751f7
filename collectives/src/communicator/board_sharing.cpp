#include <algorithm>
#include <functional>
#include <tandem/collectives.hpp>
#include <tandem/detail/board.hpp>
#include <tandem/detail/board_sharing.hpp>
#include <vector>

#include "agreement.hpp"
#include "group.hpp"

namespace tandem {

bool may_share_board(std::string_view channel, std::span<const std::string> hosts) noexcept {
  const bool has_memory = channel == "shm" || channel == "mixed";
  return has_memory && hosts.size() >= 2 &&
         hosts.size() <= static_cast<std::size_t>(board::max_ranks) &&
         std::ranges::adjacent_find(hosts, std::not_equal_to<>()) == hosts.end();
}

namespace detail {

asio::awaitable<bool> share_board(communicator& among) {
  const std::shared_ptr<group> g = among.internals();
  std::vector<int> members;
  for (int r = 0; r < g->size(); ++r) {
    members.push_back(g->member(r));
    if (r != g->rank() && !g->connected(r)) co_await g->connect(r);
  }
  // Rank 0 creates the board and sends its location.
  std::string location;
  std::shared_ptr<board> made;
  if (g->rank() == 0) made = g->over().share_board(members, location);
  std::string mine = location;
  const std::vector<std::string> locations = co_await exchange_texts(among, std::move(mine));
  location = locations.front();
  if (g->rank() != 0 && !location.empty()) made = g->over().share_board(members, location);

  const std::uint8_t has_one = made != nullptr ? 1 : 0;
  std::vector<std::uint8_t> have_one(members.size());
  const const_view own(&has_one, 1);
  const mutable_view all(have_one);
  co_await all_gather(among, own, all, algorithm::direct);
  // Close the descriptor now: there may be many communicators.
  if (made) made->on_shared();
  if (std::ranges::find(have_one, 0) != have_one.end()) co_return false;
  g->set_board(std::move(made));
  co_return true;
}

}  // namespace detail
}  // namespace tandem
