#include <algorithm>
#include <cstring>
#include <tandem/collectives/collectives.hpp>
#include <utility>

#include "islands/parts.hpp"

namespace tandem {
namespace {

detail::island_fact fact_of(const accelerator& device, const island_member& mine, int library) {
  detail::island_fact fact;
  fact.kind = static_cast<std::int32_t>(mine.kind);
  fact.colour = mine.colour;
  fact.library = library;
  const std::string& uuid = device.facts().uuid;
  std::memcpy(fact.uuid.data(), uuid.data(), std::min(uuid.size(), fact.uuid.size()));
  return fact;
}

}  // namespace

islands::islands(std::unique_ptr<detail::island_parts> made) : parts_(std::move(made)) {}
islands::~islands() = default;

asio::awaitable<std::unique_ptr<islands>> islands::make(communicator& all, island_member mine) {
  accelerator& device = accelerator_at(mine.kind, mine.device);
  std::string why;
  const detail::nccl* const library = detail::find_nccl(mine.kind, why);
  int version = 0;
  if (library != nullptr) library->version(&version);

  detail::island_fact own = fact_of(device, mine, version);
  std::vector<detail::island_fact> said(static_cast<std::size_t>(all.size()));
  const const_view own_bytes(&own, sizeof own);
  const mutable_view said_bytes(said.data(), said.size() * sizeof own);
  co_await tandem::all_gather(all, own_bytes, said_bytes);

  auto made = std::make_unique<detail::island_parts>(all, device, said);
  co_await made->connect(library);
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
