#include "mixed/pairs.hpp"

#include <fmt/format.h>

#include <tandem/log.hpp>
#include <utility>

namespace tandem::mixed {
namespace {

std::string key_of(int rank) {
  return fmt::format("host/{}", rank);
}

}  // namespace

pairs::pairs(std::shared_ptr<store> meeting, settings options, std::shared_ptr<tcp::mesh> near,
             std::shared_ptr<tcp::mesh> far)
    : store_(std::move(meeting)),
      options_(std::move(options)),
      near_(std::move(near)),
      far_(std::move(far)),
      chosen_(static_cast<std::size_t>(size())),
      found_(static_cast<std::size_t>(size())) {}

asio::awaitable<void> pairs::open() {
  const auto self = shared_from_this();
  // Both meshes listen for peers, and each peer is connected by one of them.
  tcp::reserve_for_rank(rank(), size(), kind(), 2, 1);
  mine_.far = far_->kind();
  const bool has_near = co_await open_near();
  if (has_near) mine_.shares = shared_by_neighbours(options_);
  co_await far_->open();
  // Published last, when both meshes listen.
  std::string text = mine_.text();
  co_await store_->set(key_of(rank()), std::move(text));
}

asio::awaitable<bool> pairs::open_near() {
  try {
    co_await near_->open();
    co_return true;
  } catch (const error& why) {
    log(log_level::info, "mixed",
        fmt::format("rank {} cannot use shared memory: {}", rank(), why.what()));
  }
  near_->close();
  co_return false;
}

std::shared_ptr<board> pairs::share_board(std::span<const int> members, std::string& board_name) {
  for (const int member : members) {
    if (member != rank() && near_->find(member) == nullptr) return nullptr;
  }
  return near_->share_board(members, board_name);
}

asio::awaitable<std::reference_wrapper<channel>> pairs::to(int peer) {
  const auto self = shared_from_this();
  tcp::mesh* by = far_.get();  // which also reports an invalid peer
  if (peer >= 0 && peer < size() && peer != rank()) {
    tcp::mesh*& chosen = chosen_[static_cast<std::size_t>(peer)];
    if (chosen == nullptr) {
      const std::optional<error> failure = co_await choose(peer);
      // Once the job has ended, the mesh has the actual reason.
      if (failure && !far_->is_over()) throw error(*failure);
    }
    if (chosen != nullptr) by = chosen;
  }
  co_return co_await by->to(peer);
}

asio::awaitable<std::optional<error>> pairs::choose(int peer) {
  try {
    std::vector<std::string> keys(1, key_of(peer));
    const std::vector<std::string> published =
        co_await store_->get(std::move(keys), options_.meet_timeout);
    const place theirs = read_place(peer, published.front());
    chosen_[static_cast<std::size_t>(peer)] =
        share_memory(mine_, theirs) ? near_.get() : far_.get();
  } catch (const error& why) {
    const error_context here{
        .rank = rank(), .peer = peer, .rail = {}, .phase = "connect", .detail = {}, .advice = {}};
    co_return with_context(why, here);
  }
  co_return std::nullopt;
}

place pairs::read_place(int peer, std::string_view published) const {
  place theirs = place::parse(published);
  if (theirs.far.empty()) {
    throw error(errc::protocol_violation,
                fmt::format("a peer published the invalid rank location '{}'", published));
  }
  if (theirs.far != mine_.far && !share_memory(mine_, theirs)) {
    throw error(errc::bad_option,
                fmt::format("between hosts rank {} uses {}, but rank {} uses {}", rank(), mine_.far,
                            peer, theirs.far),
                "give --rails to all ranks or to none");
  }
  return theirs;
}

channel* pairs::find(int peer) noexcept {
  channel*& found = found_[static_cast<std::size_t>(peer)];
  // The rank that connects first has chosen for both: only one mesh has a channel.
  if (found == nullptr) found = near_->find(peer);
  if (found == nullptr) found = far_->find(peer);
  return found;
}

std::string_view pairs::kind_to(int peer) const noexcept {
  if (near_->find(peer) != nullptr) return near_->kind();
  if (far_->find(peer) != nullptr) return far_->kind();
  return kind();
}

void pairs::fail(const error& reason, bool tell_others) noexcept {
  const auto self = shared_from_this();
  near_->fail(reason, tell_others);
  far_->fail(reason, tell_others);
}

void pairs::close() noexcept {
  const auto self = shared_from_this();
  near_->close();
  far_->close();
}

}  // namespace tandem::mixed
