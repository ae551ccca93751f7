#include <fmt/format.h>

#include <array>
#include <boost/asio/this_coro.hpp>
#include <numeric>
#include <tandem/communicator.hpp>
#include <utility>

#include "group.hpp"

namespace tandem {
namespace {

std::vector<int> all_of(const fabric& over) {
  std::vector<int> ranks(static_cast<std::size_t>(over.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::uint16_t checked(std::uint16_t group_id) {
  if (group_id != 0) return group_id;
  throw error(errc::bad_input, "group id 0 is reserved for the whole job", "use 1 to 4095");
}

void check_peer(const detail::group& g, int peer, const char* what) {
  if (peer >= 0 && peer < g.size() && peer != g.rank()) return;
  throw error(errc::bad_input,
              peer == g.rank()
                  ? fmt::format("{}: rank {} is this rank", what, peer)
                  : fmt::format("{}: no rank {} in a group of {}", what, peer, g.size()));
}

}  // namespace

communicator::communicator(fabric& over, const settings& options)
    : group_(std::make_shared<detail::group>(over, options, all_of(over), 0)) {}

communicator::communicator(fabric& over, const settings& options, std::vector<int> members,
                           std::uint16_t group_id)
    : group_(
          std::make_shared<detail::group>(over, options, std::move(members), checked(group_id))) {}

communicator::communicator(communicator&&) noexcept = default;
communicator& communicator::operator=(communicator&& from) noexcept {
  if (this != &from) {
    close();
    group_ = std::move(from.group_);
  }
  return *this;
}
communicator::~communicator() {
  close();
}

void communicator::close() noexcept {
  if (group_) group_->close();
}

void communicator::throw_moved_from() {
  throw error(errc::bad_input, "this communicator was moved from",
              "use the one that it was moved to");
}

int communicator::rank() const {
  return internals()->rank();
}
int communicator::size() const {
  return internals()->size();
}
int communicator::job_rank(int rank) const {
  return internals()->member(rank);
}
asio::any_io_executor communicator::get_executor() const {
  return internals()->executor();
}
const plan& communicator::agreed() const {
  return internals()->agreed();
}
const backend_description& communicator::backend() const {
  return internals()->backend();
}

void communicator::set_timeout(std::optional<std::chrono::milliseconds> limit) {
  internals()->set_timeout(limit);
}

namespace {

using group_ptr = std::shared_ptr<detail::group>;

/// What a message whose communicator was destroyed throws; else what is being thrown.
[[noreturn]] void rethrow(const detail::group& g) {
  g.throw_if_closed();
  throw;
}

asio::awaitable<void> send_message(group_ptr g, int to, const_view message, std::uint16_t tag) {
  g->throw_if_closed();
  const operation::time_point due = g->deadline();
  check_peer(*g, to, "send");
  if (!g->connected(to)) co_await g->connect(to);
  detail::transfer out;
  detail::flight io({&out, 1}, g->executor());
  io.set_deadline(due);
  const detail::open_message open(*g, io);
  try {
    io.send(out, g->to(to), g->flow(detail::group::flow_class::point_to_point, tag), message);
    while (!io.over(out)) co_await io.until(out);
  } catch (...) {
    rethrow(*g);
  }
}

asio::awaitable<std::size_t> receive_message(group_ptr g, int from, mutable_view into,
                                             std::uint16_t tag) {
  g->throw_if_closed();
  const operation::time_point due = g->deadline();
  check_peer(*g, from, "recv");
  if (!g->connected(from)) co_await g->connect(from);
  detail::transfer in;
  detail::flight io({&in, 1}, g->executor());
  io.set_deadline(due);
  const detail::open_message open(*g, io);
  try {
    io.recv_some(in, g->to(from), g->flow(detail::group::flow_class::point_to_point, tag), into);
    while (!io.over(in)) co_await io.until(in);
  } catch (...) {
    rethrow(*g);
  }
  co_return in.bytes;
}

asio::awaitable<std::size_t> exchange_messages(group_ptr g, int to, const_view message, int from,
                                               mutable_view into, std::uint16_t tag) {
  g->throw_if_closed();
  const operation::time_point due = g->deadline();
  check_peer(*g, to, "sendrecv");
  check_peer(*g, from, "sendrecv");
  if (!g->connected(to)) co_await g->connect(to);
  if (!g->connected(from)) co_await g->connect(from);
  const flow_id flow = g->flow(detail::group::flow_class::point_to_point, tag);
  std::array<detail::transfer, 2> both;
  detail::flight io(both, g->executor());
  io.set_deadline(due);
  const detail::open_message open(*g, io);
  std::exception_ptr failure;
  try {
    io.recv_some(both[0], g->to(from), flow, into);
    io.send(both[1], g->to(to), flow, message);
    while (!io.over(both[0])) co_await io.until(both[0]);
    while (!io.over(both[1])) co_await io.until(both[1]);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return both[0].bytes;
  // The views are returned to the caller only when nothing accesses them any more.
  io.cancel();
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!io.idle()) co_await io.until_idle();
  co_await asio::this_coro::throw_if_cancelled(throws);
  g->throw_if_closed();
  std::rethrow_exception(failure);
}

}  // namespace

// Not coroutines themselves: they may be awaited after this object has ended.

asio::awaitable<void> communicator::send(int to, const_view message, std::uint16_t tag) {
  return send_message(internals(), to, message, tag);
}

asio::awaitable<std::size_t> communicator::recv(int from, mutable_view into, std::uint16_t tag) {
  return receive_message(internals(), from, into, tag);
}

asio::awaitable<std::size_t> communicator::sendrecv(int to, const_view message, int from,
                                                    mutable_view into, std::uint16_t tag) {
  return exchange_messages(internals(), to, message, from, into, tag);
}

}  // namespace tandem
