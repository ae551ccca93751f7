#include "support/rails_rig.hpp"

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <tandem/detail/quiet.hpp>

#include "protocol/carried_channel.hpp"
#include "rails/socket_wire.hpp"
#include "tcp/connect.hpp"

namespace tandem::test {
namespace {

using detail::quiet;
constexpr rails::patience bounds{};

std::shared_ptr<rails::link> make_link(const asio::any_io_executor& executor,
                                       const settings& options, int rank, std::size_t lanes) {
  return std::make_shared<rails::link>(executor, protocol::offered(options),
                                       protocol::identity{rank, 1 - rank, "loopback"},
                                       options.operation_timeout, lanes, bounds, true);
}

}  // namespace

rails_rig::rails_rig(const asio::any_io_executor& executor, settings options)
    : door_(executor, {asio::ip::address_v4::loopback(), 0}), options_(std::move(options)) {}

awaitable<std::shared_ptr<rails_rig>> rails_rig::connect(settings options, std::size_t lanes,
                                                         bool tapped, wire_maker make) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::shared_ptr<rails_rig> rig(new rails_rig(executor, options));
  rig->make_ = std::move(make);
  if (tapped) rig->tap = wire_tap::open(executor, rig->door_.local_endpoint());
  for (const int side : {0, 1}) rig->ends[side] = make_link(executor, options, -1, lanes);
  asio::co_spawn(executor, rig->accept_all(), [rig](auto...) {});
  rig->ends[1]->run(nullptr);
  const std::weak_ptr<rails_rig> weak = rig;
  rig->ends[0]->run([weak](std::uint16_t lane, std::uint32_t epoch, std::string& name) {
    std::shared_ptr<rails_rig> there = weak.lock();
    if (!there) throw error(asio::error::connection_refused);
    return dial(std::move(there), lane, epoch, name);
  });
  const auto all_up = [rig] {
    for (const auto& end : rig->ends) {
      for (std::uint16_t i = 0; i < end->state().lanes(); ++i) {
        if (!end->state().is_live(i)) return false;
      }
    }
    return true;
  };
  co_await until(all_up, "lanes come up");
  co_return rig;
}

channel_pair rails_rig::channels() {
  channel_pair pair;
  pair.first = std::make_unique<protocol::carried_channel<rails::link>>(ends[0]);
  pair.second = std::make_unique<protocol::carried_channel<rails::link>>(ends[1]);
  return pair;
}

sealed::keys rails_rig::keys_of(const rig_hello& hello, sealed::side which) const {
  if (!options_.encrypt) return {};
  return sealed::derive_keys(options_.job_secret, std::as_bytes(std::span(hello)), {}, which);
}

awaitable<std::unique_ptr<rails::wire>> rails_rig::dress(asio::ip::tcp::socket over,
                                                         rig_hello hello,
                                                         sealed::side which) const {
  tcp::configure(over, options_);
  sealed::connection dressed(std::move(over), keys_of(hello, which));
  if (!make_) co_return std::make_unique<rails::socket_wire>(std::move(dressed));
  const auto lane = static_cast<std::uint16_t>(hello[0]);
  std::unique_ptr<rails::wire> made = co_await make_(std::move(dressed), which, lane);
  co_return made;
}

/// Each guest by itself: one whose set-up hangs keeps no other waiting.
awaitable<void> rails_rig::accept_all() {
  for (;;) {
    auto [failure, guest] = co_await door_.async_accept(quiet);
    if (failure) co_return;
    asio::co_spawn(door_.get_executor(), welcome(std::move(guest)),
                   [self = shared_from_this()](auto...) {});
  }
}

awaitable<void> rails_rig::welcome(asio::ip::tcp::socket guest) {
  rig_hello hello{};
  const auto [unread, n] = co_await asio::async_read(guest, asio::buffer(hello), quiet);
  if (unread) co_return;
  std::unique_ptr<rails::wire> over;
  try {
    over = co_await dress(std::move(guest), hello, sealed::side::listener);
  } catch (const error&) {
    co_return;  // the peer dials again
  }
  ends[1]->attach(static_cast<std::uint16_t>(hello[0]), hello[1], std::move(over), "there");
  if (ends[1]->is_over()) door_.close();
}

awaitable<std::unique_ptr<rails::wire>> rails_rig::dial(std::shared_ptr<rails_rig> self,
                                                        std::uint16_t lane, std::uint32_t epoch,
                                                        std::string& name) {
  name = "here";
  error_code closed;
  asio::ip::tcp::endpoint to = self->door_.local_endpoint(closed);
  if (closed) throw error(asio::error::connection_refused);
  if (self->tap) to = self->tap->endpoint();
  asio::ip::tcp::socket over(self->door_.get_executor());
  const auto [failure] = co_await over.async_connect(to, quiet);
  if (failure) throw error(failure);
  const rig_hello hello{lane, epoch};
  const auto [unsaid, n] = co_await asio::async_write(over, asio::buffer(hello), quiet);
  if (unsaid) throw error(unsaid);
  std::unique_ptr<rails::wire> made =
      co_await self->dress(std::move(over), hello, sealed::side::connector);
  co_return made;
}

void rails_rig::cut(std::uint16_t lane) {
  ends[random_() % 2]->cut(lane);
}

void rails_rig::keep_cutting(std::chrono::milliseconds every) {
  asio::co_spawn(door_.get_executor(), cut_for_ever(every),
                 [self = shared_from_this()](auto...) {});
}

awaitable<void> rails_rig::cut_for_ever(std::chrono::milliseconds every) {
  asio::steady_timer timer(door_.get_executor());
  while (!ends[0]->is_over() && !ends[1]->is_over()) {
    timer.expires_after(every * (1 + random_() % 8) / 4);
    co_await timer.async_wait(asio::use_awaitable);
    cut(static_cast<std::uint16_t>(random_() % ends[0]->state().lanes()));
  }
}

}  // namespace tandem::test
