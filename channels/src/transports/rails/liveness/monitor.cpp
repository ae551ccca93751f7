#include "transports/rails/liveness/monitor.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/owned_descriptor.hpp>
#include <tandem/detail/trust.hpp>
#include <utility>

#include "transports/rails/liveness/message.hpp"

namespace tandem::rails::liveness {
namespace {

constexpr std::string_view key_label = "tandem liveness 1";
constexpr std::string_view no_secret = "jobs without a secret";
/// Messages that one wake-up handles of a socket.
constexpr int max_batch = 64;

std::int64_t ms_of(monitor::clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

struct peer_record {
  std::atomic<std::uint64_t> nonce{0};  // of the last probe
  std::atomic<std::int64_t> seen_ms{0};
  std::atomic<std::uint32_t> busy_ms{0};
};

struct bound_socket {
  asio::ip::address where;
  detail::owned_descriptor descriptor;
};

}  // namespace

/// The thread may outlive the monitor for a moment. What it uses does not change after its start
/// but for the atomics.
struct monitor::state {
  state(int own, int size, const secret& of_job)
      : rank(static_cast<std::uint32_t>(own)),
        key(trust::derive_key(of_job.empty() ? secret(no_secret) : of_job, key_label)),
        stop(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        peers(static_cast<std::size_t>(size)) {}

  const std::uint32_t rank;
  const secret key;
  const detail::owned_descriptor stop;
  std::vector<bound_socket> sockets;
  std::vector<peer_record> peers;
  std::atomic<std::int64_t> loop_ran_ms{0};
};

monitor::monitor(int rank, int size, const secret& key)
    : state_(std::make_shared<state>(rank, size, key)), routes_(static_cast<std::size_t>(size)) {
  loop_runs(clock::now());
}

monitor::~monitor() {
  // A child of fork() shares the parent's eventfd.
  if (!origin_.is_here()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(state_->stop.get(), &one, sizeof one);
}

bool monitor::listen(const asio::ip::address& where, std::uint16_t port) {
  const asio::ip::udp::endpoint at(where, port);
  detail::owned_descriptor made(
      detail::open_socket(at.protocol().family(), SOCK_DGRAM | SOCK_NONBLOCK, 0));
  if (!made.is_open() || !state_->stop.is_open()) return false;
  if (::bind(made.get(), at.data(), static_cast<socklen_t>(at.size())) != 0) return false;
  state_->sockets.push_back({where, std::move(made)});
  return true;
}

void monitor::start() {
  if (started_ || state_->sockets.empty()) return;
  detail::run_detached("to answer while the event loop is busy",
                       [shared = state_] { serve(*shared); });
  started_ = true;
}

void monitor::set_routes(int peer, std::vector<route> routes) {
  routes_[static_cast<std::size_t>(peer)] = std::move(routes);
}

void monitor::probe(int peer) noexcept {
  const auto index = static_cast<std::size_t>(peer);
  if (!started_ || routes_[index].empty()) return;
  try {
    std::array<std::byte, sizeof(std::uint64_t)> random{};
    trust::random_bytes(random);
    message what{message_kind::probe, state_->rank, static_cast<std::uint32_t>(peer)};
    what.nonce = std::bit_cast<std::uint64_t>(random);
    const auto bytes = encode(what, state_->key);
    state_->peers[index].nonce.store(what.nonce);
    for (const route& each : routes_[index]) {
      const auto by = std::ranges::find(state_->sockets, each.from, &bound_socket::where);
      if (by == state_->sockets.end()) continue;
      ::sendto(by->descriptor.get(), bytes.data(), bytes.size(), MSG_DONTWAIT, each.to.data(),
               static_cast<socklen_t>(each.to.size()));
    }
  } catch (const std::exception&) {
    // No random bytes: the peer then counts as silent.
  }
}

std::optional<monitor::sighting> monitor::seen(int peer) const noexcept {
  const peer_record& of = state_->peers[static_cast<std::size_t>(peer)];
  const std::int64_t seen_ms = of.seen_ms.load();
  if (seen_ms == 0) return {};
  return sighting{clock::time_point(std::chrono::milliseconds(seen_ms)),
                  std::chrono::milliseconds(of.busy_ms.load())};
}

void monitor::loop_runs(clock::time_point now) noexcept {
  state_->loop_ran_ms.store(ms_of(now), std::memory_order_relaxed);
}

/// Of one socket, on the thread.
void monitor::receive(state& shared, int socket) {
  for (int i = 0; i < max_batch; ++i) {
    // Longer by one, so that what is too long is not taken for a message.
    std::array<std::byte, message_bytes + 1> bytes{};
    asio::ip::udp::endpoint from;
    auto length = static_cast<socklen_t>(from.capacity());
    const ssize_t got =
        ::recvfrom(socket, bytes.data(), bytes.size(), MSG_DONTWAIT, from.data(), &length);
    if (got < 0) return;  // nothing more, or an ICMP error of an earlier message
    const auto found = decode(std::span(bytes).first(static_cast<std::size_t>(got)), shared.key);
    if (!found || found->to != shared.rank || found->from >= shared.peers.size()) continue;
    const std::int64_t now_ms = ms_of(clock::now());
    if (found->kind == message_kind::answer) {
      peer_record& peer = shared.peers[found->from];
      if (found->nonce != peer.nonce.load()) continue;
      peer.busy_ms.store(found->busy_ms);
      peer.seen_ms.store(now_ms);
      continue;
    }
    message answer{message_kind::answer, shared.rank, found->from, found->nonce};
    const std::int64_t busy_ms = now_ms - shared.loop_ran_ms.load(std::memory_order_relaxed);
    answer.busy_ms = static_cast<std::uint32_t>(std::clamp<std::int64_t>(busy_ms, 0, UINT32_MAX));
    const auto reply = encode(answer, shared.key);
    ::sendto(socket, reply.data(), reply.size(), MSG_DONTWAIT, from.data(), length);
  }
}

/// The thread.
void monitor::serve(state& shared) {
  std::vector<pollfd> waits;
  for (const bound_socket& each : shared.sockets) {
    waits.push_back({each.descriptor.get(), POLLIN, 0});
  }
  waits.push_back({shared.stop.get(), POLLIN, 0});
  while (true) {
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if (waits.back().revents != 0) return;
    for (std::size_t i = 0; i + 1 < waits.size(); ++i) {
      if (waits[i].revents != 0) receive(shared, waits[i].fd);
    }
  }
}

}  // namespace tandem::rails::liveness
