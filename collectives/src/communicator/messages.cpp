#include "messages.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <tandem/detail/flight.hpp>
#include <type_traits>
#include <utility>

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

/// One message, or a probe for one. @tparam Result  its length, or void: one coroutine for both
template <class Result>
asio::awaitable<Result> carry_out(group_ptr g, operation::kind what, const char* name, int peer,
                                  mutable_view view, std::uint16_t tag, group::flow_class use) {
  g->throw_if_closed();
  const operation::time_point due = g->deadline();
  check_peer(*g, peer, name);
  if (!g->connected(peer)) co_await g->connect(peer);
  const flow_id flow = g->flow(use, tag);
  transfer one;
  flight io({&one, 1}, g->executor());
  io.honours_total_cancellation();
  io.set_deadline(due);
  const open_message open(*g, io);
  try {
    switch (what) {
      case operation::kind::send:
        io.send(one, g->to(peer), flow, view);
        break;
      case operation::kind::recv:
        io.recv_some(one, g->to(peer), flow, view);
        break;
      case operation::kind::probe:
        io.probe(one, g->to(peer), flow);
        break;
    }
    while (!io.over(one)) co_await io.until(one);
  } catch (...) {
    rethrow(*g);
  }
  if constexpr (!std::is_void_v<Result>) co_return one.bytes;
}

}  // namespace

asio::awaitable<void> send_message(group_ptr g, int to, const_view message, std::uint16_t tag,
                                   group::flow_class use) {
  // A send only reads its view.
  const mutable_view view{const_cast<void*>(message.data), message.bytes, message.kind,
                          message.device};
  return carry_out<void>(std::move(g), operation::kind::send, "send", to, view, tag, use);
}

asio::awaitable<std::size_t> receive_message(group_ptr g, int from, mutable_view into,
                                             std::uint16_t tag, group::flow_class use) {
  return carry_out<std::size_t>(std::move(g), operation::kind::recv, "recv", from, into, tag, use);
}

asio::awaitable<std::size_t> probe_message(group_ptr g, int from, std::uint16_t tag) {
  return carry_out<std::size_t>(std::move(g), operation::kind::probe, "probe", from, {}, tag,
                                group::flow_class::point_to_point);
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

}  // namespace tandem::detail
