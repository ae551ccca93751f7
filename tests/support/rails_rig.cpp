#include "support/rails_rig.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "link/channel_handle.hpp"

namespace tandem::test {

awaitable<std::shared_ptr<rails_rig>> rails_rig::connect(settings options, std::size_t lanes,
                                                         bool tapped, lane_connection_maker make) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto rig = std::make_shared<rails_rig>();
  const rails::timeouts bounds{options.rail_timeout, options.peer_timeout};
  for (auto& end : rig->ends) end = make_rig_link(executor, options, lanes, bounds);
  const auto by = std::make_shared<const lane_maker>(lane_maker{options, std::move(make)});
  const std::shared_ptr<lane_acceptor> acceptor =
      lane_acceptor::open(rig->ends[1], by, asio::ip::address_v4::loopback());
  if (tapped) rig->tap = wire_tap::open(executor, acceptor->at());
  const std::weak_ptr<lane_acceptor> there = acceptor;
  connect_lanes(*rig->ends[0], by, [there, tap = rig->tap](std::uint16_t) {
    const std::shared_ptr<lane_acceptor> open = there.lock();
    if (!open) throw error(asio::error::connection_refused);
    const asio::ip::tcp::endpoint at = open->at();
    return tap ? tap->endpoint() : at;
  });
  const auto both_up = [rig] {
    for (const auto& end : rig->ends) {
      if (!end->is_over()) continue;
      const auto& why = end->messages().failed();
      require(false,
              std::string("a link ended while lanes came up: ") + (why ? why->what() : "closed"));
    }
    return all_up(*rig->ends[0]) && all_up(*rig->ends[1]);
  };
  co_await until(both_up, "lanes come up");
  co_return rig;
}

channel_pair rails_rig::channels() {
  channel_pair pair;
  pair.first = std::make_unique<transport::channel_handle<rails::link>>(ends[0]);
  pair.second = std::make_unique<transport::channel_handle<rails::link>>(ends[1]);
  return pair;
}

void rails_rig::cut(std::uint16_t lane) {
  ends[random_() % 2]->cut(lane);
}

void rails_rig::keep_cutting(std::chrono::milliseconds every) {
  asio::co_spawn(ends[0]->get_executor(), cut_for_ever(every),
                 [self = shared_from_this()](auto...) {});
}

awaitable<void> rails_rig::cut_for_ever(std::chrono::milliseconds every) {
  asio::steady_timer timer(ends[0]->get_executor());
  while (!ends[0]->is_over() && !ends[1]->is_over()) {
    timer.expires_after(every * (1 + random_() % 8) / 4);
    co_await timer.async_wait(asio::use_awaitable);
    cut(static_cast<std::uint16_t>(random_() % ends[0]->state().lanes()));
  }
}

}  // namespace tandem::test
