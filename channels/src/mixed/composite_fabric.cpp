#include "mixed/composite_fabric.hpp"

#include <fmt/format.h>

#include <tandem/log.hpp>
#include <utility>

namespace tandem::mixed {
namespace {

std::string key_of(int rank) {
  return fmt::format("host/{}", rank);
}

}  // namespace

composite_fabric::composite_fabric(std::shared_ptr<store> meeting, settings options,
                                   std::shared_ptr<transport::fabric_base> intra_host,
                                   std::shared_ptr<transport::fabric_base> inter_host)
    : store_(std::move(meeting)),
      options_(std::move(options)),
      intra_host_(std::move(intra_host)),
      inter_host_(std::move(inter_host)),
      chosen_(static_cast<std::size_t>(size())),
      found_(static_cast<std::size_t>(size())) {}

asio::awaitable<void> composite_fabric::open() {
  const auto self = shared_from_this();
  // Both meshes listen for peers, and each peer is connected by one of them.
  transport::reserve_for_rank(rank(), size(), kind(), 2, 1);
  local_.inter_host = inter_host_->kind();
  const bool has_intra_host = co_await open_intra_host();
  if (has_intra_host) local_.sharing_domain = local_sharing_domain(options_);
  co_await inter_host_->open();
  // Published last, when both meshes listen.
  std::string text = local_.text();
  co_await store_->set(key_of(rank()), std::move(text));
}

asio::awaitable<bool> composite_fabric::open_intra_host() {
  try {
    co_await intra_host_->open();
    co_return true;
  } catch (const error& why) {
    log(log_level::info, "mixed",
        fmt::format("rank {} cannot use shared memory: {}", rank(), why.what()));
  }
  intra_host_->close();
  co_return false;
}

std::shared_ptr<board> composite_fabric::share_board(std::span<const int> members,
                                                     std::string& board_name) {
  for (const int member : members) {
    if (member != rank() && intra_host_->find(member) == nullptr) return nullptr;
  }
  return intra_host_->share_board(members, board_name);
}

asio::awaitable<std::reference_wrapper<channel>> composite_fabric::to(int peer) {
  const auto self = shared_from_this();
  transport::fabric_base* by = inter_host_.get();  // which also reports an invalid peer
  if (peer >= 0 && peer < size() && peer != rank()) {
    transport::fabric_base*& chosen = chosen_[static_cast<std::size_t>(peer)];
    if (chosen == nullptr) {
      const std::optional<error> failure = co_await choose(peer);
      // Once the job has ended, the mesh has the actual reason.
      if (failure && !inter_host_->is_over()) throw error(*failure);
    }
    if (chosen != nullptr) by = chosen;
  }
  co_return co_await by->to(peer);
}

asio::awaitable<std::optional<error>> composite_fabric::choose(int peer) {
  try {
    std::vector<std::string> keys(1, key_of(peer));
    const std::vector<std::string> published =
        co_await store_->get(std::move(keys), options_.meet_timeout);
    const rank_location remote = read_location(peer, published.front());
    chosen_[static_cast<std::size_t>(peer)] =
        share_memory(local_, remote) ? intra_host_.get() : inter_host_.get();
  } catch (const error& why) {
    const error_context here{
        .rank = rank(), .peer = peer, .rail = {}, .phase = "connect", .detail = {}, .advice = {}};
    co_return with_context(why, here);
  }
  co_return std::nullopt;
}

rank_location composite_fabric::read_location(int peer, std::string_view published) const {
  rank_location remote = rank_location::parse(published);
  if (remote.inter_host.empty()) {
    throw error(errc::protocol_violation,
                fmt::format("a peer published the invalid rank location '{}'", published));
  }
  if (remote.inter_host != local_.inter_host && !share_memory(local_, remote)) {
    throw error(errc::bad_option,
                fmt::format("between hosts rank {} uses {}, but rank {} uses {}", rank(),
                            local_.inter_host, peer, remote.inter_host),
                "give --rails to all ranks or to none");
  }
  return remote;
}

channel* composite_fabric::find(int peer) noexcept {
  channel*& found = found_[static_cast<std::size_t>(peer)];
  // The rank that connects first has chosen for both: only one mesh has a channel.
  if (found == nullptr) found = intra_host_->find(peer);
  if (found == nullptr) found = inter_host_->find(peer);
  return found;
}

std::string_view composite_fabric::kind_to(int peer) const noexcept {
  if (intra_host_->find(peer) != nullptr) return intra_host_->kind();
  if (inter_host_->find(peer) != nullptr) return inter_host_->kind();
  return kind();
}

void composite_fabric::fail(const error& reason, bool notify_others) noexcept {
  const auto self = shared_from_this();
  intra_host_->fail(reason, notify_others);
  inter_host_->fail(reason, notify_others);
}

void composite_fabric::close() noexcept {
  const auto self = shared_from_this();
  intra_host_->close();
  inter_host_->close();
}

}  // namespace tandem::mixed
