#include "shm/mesh.hpp"

#include <fmt/format.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/channels.hpp>
#include <tandem/detail/quiet.hpp>
#include <tandem/log.hpp>

#include "tcp/fabric_handle.hpp"

namespace tandem::shm {
namespace {

using detail::quiet;
/// When two ranks connect to each other at once, the refused one checks again after this time.
constexpr std::chrono::milliseconds crossed_retry_delay{1000};

std::string key_of(int rank) {
  return fmt::format("shm/{}", rank);
}

/// A rank publishes its host identity, a blank and the name of its listen endpoint.
std::string listener_name_of(const std::string& published, const std::string& here, int peer) {
  if (!published.starts_with(here)) {
    throw error(
        errc::unreachable,
        fmt::format("rank {} is on another host, or in a container with its own network", peer),
        "shared memory connects ranks of one host only: choose --channel tcp or rails");
  }
  return published.substr(here.size());
}

}  // namespace

asio::awaitable<void> mesh::open() {
  reserve(1, 1);
  // Without shared memory, fail now rather than with the first peer.
  memory::create(ring_bytes_for(options().shm_ring_bytes, size()));
  here_ = host_identity() + ' ';
  std::string name = random_name();
  const std::weak_ptr<mesh> weak = std::static_pointer_cast<mesh>(shared_from_this());
  const auto opened = std::make_shared<handshake_server>(
      listen(get_executor(), name), make_hello(-1), key(), options(),
      [weak](const tcp::hello& remote_hello) {
        const auto self = weak.lock();
        return self ? self->check_hello(remote_hello) : tcp::handshake_status::wrong_job;
      },
      [weak](control_socket socket, const sealed::keys&, const tcp::hello& local_hello,
             const tcp::hello& remote_hello) {
        if (const auto self = weak.lock()) {
          self->take(std::move(socket), 1, remote_hello.from, local_hello, remote_hello);
        }
      });
  opened->run();
  add_listen_endpoint(opened);
  watch_store();
  std::string line = here_ + name;
  co_await publish(key_of(rank()), std::move(line));
}

void mesh::take(control_socket socket, int side, int peer, const tcp::hello& local_hello,
                const tcp::hello& remote_hello) {
  const std::shared_ptr<link> over =
      make_link(std::move(socket), side, local_hello, remote_hello, options());
  over->on_lost(lost_handler());
  over->on_doorbell([weak = weak_from_this()] {
    if (const auto self = weak.lock()) std::static_pointer_cast<mesh>(self)->on_doorbell();
  });
  if (find(peer) == nullptr) {
    links_.resize(static_cast<std::size_t>(size()));
    links_[static_cast<std::size_t>(peer)] = over;
  }
  install(peer, std::make_unique<link_channel>(over));
}

std::shared_ptr<board> mesh::share_board(std::span<const int> members, std::string& location) {
  try {
    const auto self = std::static_pointer_cast<mesh>(shared_from_this());
    std::shared_ptr<shared_board> made = shared_board::make(self, members, location, options());
    std::erase_if(boards_, [](const auto& each) { return each.expired(); });
    boards_.push_back(made);
    return made;
  } catch (const error& why) {
    log(log_level::info, "shm",
        fmt::format("rank {} has no board for short collectives: {}", rank(), why.what()));
    return nullptr;
  }
}

void mesh::ring_doorbell(int peer) noexcept {
  if (links_.empty()) return;
  if (const auto to = links_[static_cast<std::size_t>(peer)].lock()) to->ring_doorbell();
}

void mesh::on_doorbell() {
  for (std::size_t i = 0; i < boards_.size(); ++i) {
    if (const auto each = boards_[i].lock()) each->wake();
  }
}

void mesh::ended() noexcept {
  const error reason =
      failure().value_or(error(errc::channel_closed, "this rank has left the job"));
  for (const auto& each : boards_) {
    if (const auto there = each.lock()) there->fail(reason);
  }
}

asio::awaitable<void> mesh::connect_peer(int peer) {
  const std::string published = co_await look_up(key_of(peer));
  const std::string name = listener_name_of(published, here_, peer);
  asio::steady_timer timer(get_executor());
  while (find(peer) == nullptr && !is_over()) {
    const tcp::hello local_hello = make_hello(peer);
    tcp::hello answer;
    control_socket socket =
        co_await connect_and_handshake(name, local_hello, key(), options(), answer);
    if (answer.answer == tcp::handshake_status::accepted) {
      take(std::move(socket), 0, peer, local_hello, answer);
      co_return;
    }
    // The peer's own connection is being accepted here; check again in case that one failed.
    timer.expires_after(crossed_retry_delay);
    co_await timer.async_wait(quiet);
  }
}

asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options) {
  return tcp::open_fabric<mesh>(std::move(meeting), std::move(options));
}

}  // namespace tandem::shm
