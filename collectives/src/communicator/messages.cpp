#include "messages.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <tandem/detail/flight.hpp>

#include "group.hpp"

namespace tandem::detail {
namespace {

void check_peer(const group& g, int peer, const char* what) {
  if (peer >= 0 && peer < g.size() && peer != g.rank()) return;
  throw error(errc::bad_input,
              peer == g.rank()
                  ? fmt::format("{}: rank {} is this rank", what, peer)
                  : fmt::format("{}: no rank {} in a group of {}", what, peer, g.size()));
}

/// What a message whose communicator was destroyed throws; else what is being thrown.
[[noreturn]] void rethrow(const group& g) {
  g.throw_if_closed();
  throw;
}

}  // namespace

asio::awaitable<void> send_message(group_ptr g, int to, const_view message, std::uint16_t tag) {
  g->throw_if_closed();
  const operation::time_point due = g->deadline();
  check_peer(*g, to, "send");
  if (!g->connected(to)) co_await g->connect(to);
  transfer out;
  flight io({&out, 1}, g->executor());
  io.honours_total_cancellation();
  io.set_deadline(due);
  const open_message open(*g, io);
  try {
    io.send(out, g->to(to), g->flow(group::flow_class::point_to_point, tag), message);
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
  transfer in;
  flight io({&in, 1}, g->executor());
  io.honours_total_cancellation();
  io.set_deadline(due);
  const open_message open(*g, io);
  try {
    io.recv_some(in, g->to(from), g->flow(group::flow_class::point_to_point, tag), into);
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
  const flow_id flow = g->flow(group::flow_class::point_to_point, tag);
  std::array<transfer, 2> both;
  flight io(both, g->executor());
  io.honours_total_cancellation();
  io.set_deadline(due);
  const open_message open(*g, io);
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

asio::awaitable<std::size_t> probe_message(group_ptr g, int from, std::uint16_t tag) {
  g->throw_if_closed();
  const operation::time_point due = g->deadline();
  check_peer(*g, from, "probe");
  if (!g->connected(from)) co_await g->connect(from);
  transfer in;
  flight io({&in, 1}, g->executor());
  io.honours_total_cancellation();
  io.set_deadline(due);
  const open_message open(*g, io);
  try {
    io.probe(in, g->to(from), g->flow(group::flow_class::point_to_point, tag));
    while (!io.over(in)) co_await io.until(in);
  } catch (...) {
    rethrow(*g);
  }
  co_return in.bytes;
}

}  // namespace tandem::detail
