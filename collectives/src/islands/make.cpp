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

islands::islands(std::unique_ptr<detail::island_parts> made) : parts_(std::move(made)) {}
islands::~islands() = default;

asio::awaitable<std::unique_ptr<islands>> islands::make(communicator& all, island_member mine) {
  accelerator& device = accelerator_at(mine.kind, mine.device);
  std::string why;
  const detail::nccl* const library = detail::find_nccl(mine.kind, why);
  detail::island_fact own = detail::own_fact(mine);
  std::vector<detail::island_fact> reported(static_cast<std::size_t>(all.size()));
  const const_view own_bytes(&own, sizeof own);
  const mutable_view reported_bytes(reported.data(), reported.size() * sizeof own);
  co_await tandem::all_gather(all, own_bytes, reported_bytes);

  auto made = std::make_unique<detail::island_parts>(all, device, reported);
  co_await made->level("islands::make", made->connect(library));
  co_return std::unique_ptr<islands>(new islands(std::move(made)));
}

int islands::count() const noexcept {
  return parts_->islands();
}
int islands::island() const noexcept {
  return parts_->island();
}
const std::vector<std::vector<int>>& islands::members() const noexcept {
  return parts_->ranks.members;
}
const std::string& islands::text() const noexcept {
  return parts_->ranks.text;
}

}  // namespace tandem
