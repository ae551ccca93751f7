#include <tandem/collectives.hpp>
#include <tandem/window.hpp>

#include "windows/window_state.hpp"

namespace tandem {

using detail::mapped_ranks;
using detail::window_request;
using detail::window_state;

namespace {

/// A rank's memory, as it is announced to the others. Without padding.
struct announced {
  std::uint64_t bytes = 0;
  memory_location at{};
};

}  // namespace

asio::awaitable<window> make_window(communicator& among, mutable_view memory) {
  const std::shared_ptr<detail::group> in = among.internals();
  const int size = in->size();
  std::vector<announced> all(static_cast<std::size_t>(size));
  const announced own{memory.bytes, in->over().locate_memory(memory)};
  const const_view mine(&own, sizeof own);
  const mutable_view gathered(all);
  co_await all_gather(among, mine, gathered);
  for (int peer = 0; peer < size; ++peer) {
    if (peer != in->rank() && !in->connected(peer)) co_await in->connect(peer);
  }
  std::vector<std::uint64_t> sizes;
  std::vector<mapped_ranks::mapping> mapped;
  for (int peer = 0; peer < size; ++peer) {
    const announced& there = all[static_cast<std::size_t>(peer)];
    sizes.push_back(there.bytes);
    mapped.emplace_back();
    if (peer == in->rank() || there.at == memory_location{}) continue;
    mapped.back() = in->over().map_memory(in->member(peer), there.at, there.bytes);
  }
  auto state = std::make_shared<window_state>(in, memory, std::move(sizes), std::move(mapped));
  state->start();
  co_return window(std::move(state));
}

window::window(std::shared_ptr<window_state> state) : state_(std::move(state)) {}
window::window(window&&) noexcept = default;
window& window::operator=(window&& from) noexcept {
  if (this != &from) {
    if (state_) state_->close();
    state_ = std::move(from.state_);
  }
  return *this;
}
window::~window() {
  if (state_) state_->close();
}

const std::shared_ptr<window_state>& window::state() const {
  if (state_) return state_;
  throw error(errc::bad_input, "this window was moved from", "use the one that it was moved to");
}

std::size_t window::bytes(int rank) const {
  return state()->bytes(rank);
}

bool window::is_mapped(int rank) const {
  return state()->is_mapped(rank);
}

asio::awaitable<void> window::put(int to, std::size_t offset, const_view from) {
  return window_state::put(state(), to, {window_request::kind::put, 0, offset, from.bytes, 0},
                           from);
}

asio::awaitable<void> window::put(int to, std::size_t offset, const_view from,
                                  std::uint64_t notification) {
  return window_state::put(
      state(), to, {window_request::kind::put_and_notify, 0, offset, from.bytes, notification},
      from);
}

asio::awaitable<void> window::get(int from, std::size_t offset, mutable_view into) {
  return window_state::get(state(), from, {window_request::kind::get, 0, offset, into.bytes, 0},
                           into);
}

asio::awaitable<void> window::flush(int to) {
  return window_state::get(state(), to, {window_request::kind::flush, 0, 0, 0, 0}, {});
}

asio::awaitable<window_notification> window::notified() {
  return window_state::notified(state());
}

asio::awaitable<void> window::close() {
  return window_state::close_together(state());
}

}  // namespace tandem
