// Receives from whichever rank sends.
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <tandem/detail/flight.hpp>
#include <vector>

#include "group.hpp"
#include "messages.hpp"

namespace tandem::detail {
namespace {

constexpr int none = -1;

/// What the probes of all other ranks have found.
struct found_sources {
  int source = none;  ///< a rank that has sent
  std::size_t closed = 0;
};

/// The probes, by rank; this rank's is not used.
found_sources look_at(std::vector<transfer>& probes, const group& g) {
  found_sources found;
  for (int i = 0; i < g.size(); ++i) {
    const int rank = (g.first_probed() + i) % g.size();
    const transfer& one = probes[static_cast<std::size_t>(rank)];
    if (rank == g.rank() || one.path.on == nullptr || one.pending) continue;
    if (one.result == errc::peer_closed) {
      ++found.closed;
    } else if (one.failure) {
      throw error(*one.failure);
    } else if (one.result) {
      throw error(one.result);
    } else if (found.source == none) {
      found.source = rank;
    }
  }
  return found;
}

/// The first rank whose message is there; waits for it.
asio::awaitable<int> find_source(group& g, flight& io, std::vector<transfer>& probes,
                                 flow_id flow) {
  found_sources found;
  for (int i = 0; i < g.size() && found.source == none; ++i) {
    const int rank = (g.first_probed() + i) % g.size();
    if (rank == g.rank()) continue;
    io.probe(probes[static_cast<std::size_t>(rank)], g.to(rank), flow);
    if (!probes[static_cast<std::size_t>(rank)].pending) found = look_at(probes, g);
  }
  while (found.source == none) {
    if (found.closed + 1 == static_cast<std::size_t>(g.size())) {
      throw error(errc::peer_closed, "all other ranks have left", "end the loop of receives");
    }
    co_await io.until_any();
    found = look_at(probes, g);
  }
  co_return found.source;
}

/// Ends what is pending: nothing may access it any more when its memory goes.
asio::awaitable<void> end_all(flight& io) {
  io.cancel();
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!io.idle()) co_await io.until_idle();
  co_await asio::this_coro::throw_if_cancelled(throws);
}

asio::awaitable<int> wait_for_any(group_ptr g, std::uint16_t tag) {
  std::vector<transfer> probes(static_cast<std::size_t>(g->size()));
  flight io(probes, g->executor());
  io.honours_total_cancellation();
  io.set_deadline(g->deadline());
  const open_message open(*g, io);
  const flow_id flow = g->flow(group::flow_class::point_to_point, tag);
  int source = none;
  std::exception_ptr failure;
  try {
    source = co_await find_source(*g, io, probes, flow);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!io.idle()) co_await end_all(io);
  if (!failure) co_return source;
  g->throw_if_closed();
  std::rethrow_exception(failure);
}

}  // namespace

asio::awaitable<received_message> receive_from_any(group_ptr g, mutable_view into,
                                                   std::uint16_t tag) {
  g->throw_if_closed();
  if (g->size() == 1) {
    throw error(errc::bad_input, "recv_any: this group has no other rank");
  }
  for (int rank = 0; rank < g->size(); ++rank) {
    if (rank != g->rank() && !g->connected(rank)) co_await g->connect(rank);
  }
  const int source = co_await wait_for_any(g, tag);
  g->set_first_probed((source + 1) % g->size());
  const std::size_t bytes = co_await receive_message(g, source, into, tag);
  co_return received_message{source, bytes};
}

}  // namespace tandem::detail
