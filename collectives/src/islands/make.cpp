#include <algorithm>
#include <cstring>
#include <tandem/collectives.hpp>
#include <utility>

#include "islands/parts.hpp"

namespace tandem {

detail::island_fact detail::own_fact(const island_member& mine) {
  island_fact fact;
  fact.kind = static_cast<std::int32_t>(mine.kind);
  fact.colour = mine.colour;
  if (mine.kind == memory_kind::host) return fact;
  const std::string& uuid = accelerator_at(mine.kind, mine.device).facts().uuid;
  std::memcpy(fact.uuid.data(), uuid.data(), std::min(uuid.size(), fact.uuid.size()));
  std::string why;
  if (const nccl* const library = find_nccl(mine.kind, why)) library->version(&fact.library);
  return fact;
}

asio::awaitable<void> detail::add_islands(communicator& to, island_member mine) {
  accelerator& device = accelerator_at(mine.kind, mine.device);
  std::string why;
  const nccl* const library = find_nccl(mine.kind, why);
  island_fact own = own_fact(mine);
  std::vector<island_fact> reported(static_cast<std::size_t>(to.size()));
  const const_view own_bytes(&own, sizeof own);
  const mutable_view reported_bytes(reported.data(), reported.size() * sizeof own);
  co_await all_gather(to, own_bytes, reported_bytes);

  group& g = *to.internals();
  auto made = std::make_unique<island_parts>(g, device, reported);
  backend_description what = made->description();
  if (made->has_levels()) {
    co_await made->level("make_island_communicator", made->connect(to, library));
  } else {
    made.reset();
  }
  g.set_backend(std::move(made), std::move(what));
}

asio::awaitable<std::unique_ptr<communicator>> make_island_communicator(communicator& all,
                                                                        island_member mine) {
  // Before anything is sent: other ranks do not notice.
  accelerator_at(mine.kind, mine.device);
  std::unique_ptr<communicator> made = co_await all.split(0, all.rank());
  co_await detail::add_islands(*made, mine);
  co_return made;
}

}  // namespace tandem
