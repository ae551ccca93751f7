#include "windows/window_state.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>

namespace tandem::detail {
namespace {

constexpr std::uint32_t flows_of_each = 3;

/// The peer has left or this rank has: no failure.
bool is_end(const error_code& code) noexcept {
  return code == errc::peer_closed || code == errc::channel_closed;
}

/// What `window_state::close` ends. The coroutine may be destroyed with its loop, too.
class open_service {
 public:
  open_service(flight*& entry, flight& io) noexcept : entry_(entry) { entry_ = &io; }
  open_service(const open_service&) = delete;
  open_service& operator=(const open_service&) = delete;
  ~open_service() { entry_ = nullptr; }

 private:
  flight*& entry_;
};

}  // namespace

window_state::window_state(std::shared_ptr<group> in, mutable_view memory,
                           std::vector<std::uint64_t> sizes,
                           std::vector<mapped_ranks::mapping> mapped)
    : group_(std::move(in)),
      memory_(memory),
      registered_(group_->over().register_memory(memory)),
      sizes_(std::move(sizes)),
      number_(group_->next_window()),
      mapped_(std::move(mapped)),
      next_request_(sizes_.size()),
      services_(sizes_.size()),
      changed_(group_->executor()) {}

flow_id window_state::flow(flow_use use) const noexcept {
  return group_->flow(group::flow_class::window,
                      number_ * flows_of_each + static_cast<std::uint32_t>(use));
}

std::uint64_t window_state::bytes(int rank) const {
  if (rank >= 0 && rank < group_->size()) return sizes_[static_cast<std::size_t>(rank)];
  throw error(errc::bad_input, fmt::format("no rank {} in a window of {}", rank, group_->size()));
}

bool window_state::is_mapped(int rank) const {
  return bytes(rank) > 0 && rank != group_->rank() && mapped_.of(rank) != nullptr;
}

void window_state::require(int rank, const window_request& what, const char* call) const {
  group_->throw_if_failed();
  if (is_closed_) throw error(errc::channel_closed, "this window is closed");
  if (rank == group_->rank()) {
    throw error(errc::bad_input, fmt::format("{}: rank {} is this rank", call, rank),
                "access the memory itself");
  }
  if (what.fits(bytes(rank))) return;
  throw error(errc::bad_input, fmt::format("{}: {} bytes at offset {} of the {} of rank {}", call,
                                           what.bytes, what.offset, bytes(rank), rank));
}

void window_state::fail(const error& reason) {
  group_->fail(reason);
  changed_.notify_all();
  throw error(reason);
}

void window_state::fail_with(const std::exception_ptr& failure) {
  error_context context{
      .rank = group_->job_rank(), .rail = {}, .phase = {}, .detail = {}, .advice = {}};
  try {
    std::rethrow_exception(failure);
  } catch (const error& known) {
    fail(with_context(known, context));
  } catch (const boost::system::system_error& other) {
    context.detail = describe(other);
    fail(error(other.code(), std::move(context)));
  }
}

// --- this rank's own calls

/// Waits for both; if one fails, the requests and payloads between the two ranks no longer match.
asio::awaitable<void> window_state::carry_out(pointer self, flight& io, std::span<transfer> both) {
  std::exception_ptr failure;
  try {
    for (transfer& each : both) {
      while (!io.over(each)) co_await io.until(each);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return;
  io.cancel();
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!io.idle()) co_await io.until_idle();
  self->fail_with(failure);
}

/// Cancelled, it has no effect.
asio::awaitable<void> window_state::wait_for(pointer self, const mapped_ranks::place& turn) {
  while (!turn.is_first()) {
    co_await self->changed_.wait();
    self->group_->throw_if_failed();
    if (self->is_closed_) throw error(errc::channel_closed, "this window is closed");
  }
}

asio::awaitable<void> window_state::copy(pointer self, mutable_view into, const_view from) {
  std::exception_ptr failure;
  try {
    co_await copy_in_pieces(into, from);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) self->fail_with(failure);
}

/// Leaves its turn once the messages are on their way, in their order.
asio::awaitable<void> window_state::ask(pointer self, int of, window_request what,
                                        const_view payload, mutable_view answer,
                                        std::optional<mapped_ranks::place>& turn) {
  what.number = self->next_request_[static_cast<std::size_t>(of)]++;
  const window_request::wire header = what.encode();
  std::array<transfer, 2> both;
  flight io(both, self->group_->executor());
  io.set_deadline(self->group_->deadline());
  const peer_channel path = self->group_->to(of);
  io.send(both[0], path, self->flow(flow_use::requests), const_view(header));
  io.set_signature({what.number + 1, 0});
  const bool has_payload = payload.bytes > 0;
  if (has_payload) io.send(both[1], path, self->flow(flow_use::payloads), payload);
  if (what.has_answer()) io.recv(both[1], path, self->flow(flow_use::answers), answer);
  turn.reset();
  co_await carry_out(self, io, std::span(both).first(has_payload || what.has_answer() ? 2 : 1));
}

/// Keeps its turn until what was put by messages is there, so that a copy may follow.
asio::awaitable<void> window_state::await_messages(pointer self, int to) {
  std::optional<mapped_ranks::place> kept;
  co_await ask(self, to, {window_request::kind::flush, 0, 0, 0, 0}, {}, {}, kept);
  self->mapped_.has_sent_messages(to) = false;
}

asio::awaitable<void> window_state::put(pointer self, int to, window_request what,
                                        const_view from) {
  using kind = window_request::kind;
  self->require(to, what, "put");
  std::optional<mapped_ranks::place> turn;
  if (const mapped_ranks::mapping memory = self->mapped_.of(to)) {
    turn.emplace(self->mapped_, to, self->changed_);
    if (!turn->is_first()) co_await wait_for(self, *turn);
    if (from.kind == memory_kind::host) {
      if (self->mapped_.has_sent_messages(to)) co_await await_messages(self, to);
      const mutable_view part = memory->view().part(what.offset, what.bytes);
      if (!copy_at_once(part, from)) co_await copy(self, part, from);
      if (what.what == kind::put) co_return;
      what.what = kind::notify;
      from = {};
    } else {
      self->mapped_.has_sent_messages(to) = true;
    }
  }
  co_await ask(self, to, what, from, {}, turn);
}

asio::awaitable<void> window_state::get(pointer self, int from, window_request what,
                                        mutable_view into) {
  using kind = window_request::kind;
  self->require(from, what, what.what == kind::flush ? "flush" : "get");
  std::optional<mapped_ranks::place> turn;
  if (const mapped_ranks::mapping memory = self->mapped_.of(from)) {
    turn.emplace(self->mapped_, from, self->changed_);
    if (!turn->is_first()) co_await wait_for(self, *turn);
    if (what.what != kind::leave && into.kind == memory_kind::host) {
      if (self->mapped_.has_sent_messages(from)) co_await await_messages(self, from);
      const const_view part = memory->view().part(what.offset, what.bytes);
      if (!copy_at_once(into, part)) co_await copy(self, into, part);
      co_return;
    }
  }
  co_await ask(self, from, what, {}, into, turn);
}

asio::awaitable<window_notification> window_state::notified(pointer self) {
  self->group_->throw_if_failed();
  while (self->arrived_.empty()) {
    if (self->is_closed_) throw error(errc::channel_closed, "this window is closed");
    self->group_->throw_if_failed();
    if (self->serving_ == 0) {
      throw error(errc::peer_closed, "all other ranks have left, or closed the window",
                  "end the loop of notifications");
    }
    co_await self->changed_.wait();
  }
  const window_notification next = self->arrived_.front();
  self->arrived_.pop_front();
  co_return next;
}

asio::awaitable<void> window_state::close_together(pointer self) {
  const int others = self->group_->size() - 1;
  for (int peer = 0; peer <= others; ++peer) {
    if (peer == self->group_->rank()) continue;
    co_await get(self, peer, {window_request::kind::leave, 0, 0, 0, 0}, {});
  }
  while (self->left_ < others && !self->is_closed_) {
    self->group_->throw_if_failed();
    if (self->serving_ == 0) {
      throw error(errc::peer_closed, "a rank has left without closing this window",
                  "close it on every rank");
    }
    co_await self->changed_.wait();
  }
  self->close();
}

// --- the requests of others

void window_state::start() {
  for (int peer = 0; peer < group_->size(); ++peer) {
    if (peer == group_->rank()) continue;
    ++serving_;
    asio::co_spawn(group_->executor(), serve(shared_from_this(), peer), asio::detached);
  }
}

void window_state::close() noexcept {
  if (std::exchange(is_closed_, true)) return;
  for (flight*& service : services_) {
    if (flight* const io = std::exchange(service, nullptr)) io->cancel();
  }
  changed_.notify_all();
}

asio::awaitable<void> window_state::serve(pointer self, int peer) {
  std::optional<error> failure;
  std::array<transfer, 1> one;
  flight io(one, self->group_->executor());
  const open_service open(self->services_[static_cast<std::size_t>(peer)], io);
  try {
    co_await serve_until_left(self, peer, io, one[0]);
  } catch (const boost::system::system_error& ended) {
    const auto* known = dynamic_cast<const error*>(&ended);
    // `close` cancels this; a peer that fails because it was cancelled has the same code.
    if (!is_end(ended.code()) && !self->is_closed_)
      failure = known != nullptr ? *known : error(ended.code());
  }
  --self->serving_;
  if (failure && !self->group_->failed()) self->group_->fail(*failure);
  self->changed_.notify_all();
}

window_request window_state::checked(const window_request::wire& from, int peer) const {
  const std::optional<window_request> what = window_request::decode(from);
  const std::uint64_t own = sizes_[static_cast<std::size_t>(group_->rank())];
  if (what && what->fits(own)) return *what;
  error_context context{.rank = group_->job_rank(),
                        .peer = group_->member(peer),
                        .rail = {},
                        .phase = "window",
                        .detail = {},
                        .advice = {}};
  context.detail = what ? fmt::format("a request for {} bytes at offset {} of {}", what->bytes,
                                      what->offset, own)
                        : "a request of an unknown kind";
  throw error(make_error_code(errc::protocol_violation), std::move(context));
}

asio::awaitable<void> window_state::serve_until_left(pointer self, int peer, flight& io,
                                                     transfer& one) {
  group& in = *self->group_;
  const peer_channel path = in.to(peer);
  window_request::wire header;
  while (!self->is_closed_) {
    io.set_deadline(operation::no_deadline);
    io.set_signature({});
    io.recv(one, path, self->flow(flow_use::requests), mutable_view(header));
    while (!io.over(one)) co_await io.until(one);
    const window_request what = self->checked(header, peer);
    io.set_deadline(in.deadline());
    io.set_signature({what.number + 1, 0});
    const mutable_view part = self->memory_.part(what.offset, what.bytes);
    if (what.is_put() && what.bytes > 0) {
      io.recv(one, path, self->flow(flow_use::payloads), part);
      while (!io.over(one)) co_await io.until(one);
    } else if (what.has_answer()) {
      io.send(one, path, self->flow(flow_use::answers), part);
      while (!io.over(one)) co_await io.until(one);
    }
    using kind = window_request::kind;
    if (what.what == kind::put_and_notify || what.what == kind::notify) self->arrived(peer, what);
    if (what.what == window_request::kind::leave) {
      ++self->left_;
      co_return;
    }
  }
}

void window_state::arrived(int from, const window_request& what) {
  arrived_.push_back({from, what.value, what.offset, what.bytes});
  changed_.notify_all();
}

}  // namespace tandem::detail
