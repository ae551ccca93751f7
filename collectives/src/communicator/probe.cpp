#include "communicator/probe.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "communicator/group.hpp"

namespace tandem::detail {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint16_t probe_tag = 0xffff;
constexpr std::size_t short_bytes = 8;
constexpr std::size_t min_bytes = 64 * 1024;
constexpr std::size_t max_host_bytes = 4 * 1024 * 1024, max_device_bytes = 64 * 1024 * 1024;
constexpr int warm_trips = 5, short_trips = 101, long_trips = 4;
/// The 20th percentile: up to half of the trips may have shared their core with another rank.
constexpr int sampled_trip = short_trips / 5;
constexpr auto min_duration = std::chrono::milliseconds(8);

/// A pair of ranks to measure; the first one drives the measurement.
struct pair {
  int first;
  int second;
};

std::optional<pair> pair_within(const layout& where) {
  for (const std::vector<int>& here : where.members) {
    if (here.size() > 1) return pair{here[0], here[1]};
  }
  return std::nullopt;
}

std::optional<pair> pair_across(const layout& where) {
  if (where.hosts() < 2) return std::nullopt;
  return pair{where.members[0][0], where.members[1][0]};
}

asio::awaitable<std::uint64_t> round_trip_ns(communicator& all, int peer, mutable_view data) {
  const clock::time_point start = clock::now();
  co_await all.send(peer, data, probe_tag);
  co_await all.recv(peer, data, probe_tag);
  const auto took = std::chrono::nanoseconds(clock::now() - start);
  co_return static_cast<std::uint64_t>(std::max<std::int64_t>(took.count(), 2));
}

/// Sends each message back, until an empty one arrives.
asio::awaitable<void> echo(communicator& all, int peer, const buffer& scratch) {
  while (true) {
    const std::size_t bytes = co_await all.recv(peer, scratch.view(), probe_tag);
    if (bytes == 0) co_return;
    const mutable_view back = scratch.view().part(0, bytes);
    co_await all.send(peer, back, probe_tag);
  }
}

asio::awaitable<std::uint64_t> latency_ns(communicator& all, int peer, mutable_view scratch) {
  const mutable_view data = scratch.part(0, short_bytes);
  std::vector<std::uint64_t> trips;
  for (int i = 0; i < warm_trips + short_trips; ++i) {
    const std::uint64_t trip = co_await round_trip_ns(all, peer, data);
    if (i >= warm_trips) trips.push_back(trip);
  }
  std::ranges::nth_element(trips, trips.begin() + sampled_trip);
  co_return trips[sampled_trip] / 2;
}

asio::awaitable<std::uint64_t> bytes_per_us(communicator& all, int peer, mutable_view scratch) {
  std::uint64_t before_ns = 0, ns = 0;
  std::size_t bytes = min_bytes;
  while (true) {
    const mutable_view data = scratch.part(0, bytes);
    before_ns = ns;
    ns = 0;
    for (int i = 0; i < long_trips; ++i) {
      const std::uint64_t trip = co_await round_trip_ns(all, peer, data);
      ns = i == 0 ? trip : std::min(ns, trip);
    }
    const bool over = bytes == scratch.bytes || std::chrono::nanoseconds(ns) >= min_duration;
    if (over) break;
    bytes *= 2;
  }
  // Each time is a round trip; the shorter length, if there is one, is half of the longer.
  const bool two = before_ns > 0 && ns > before_ns + before_ns / 4;
  const std::uint64_t more_ns = two ? ns - before_ns : ns;
  const std::uint64_t more_bytes = two ? bytes / 2 : bytes;
  co_return std::max<std::uint64_t>(2 * more_bytes * 1000 / more_ns, 1);
}

/// The transport of the memory that is measured.
std::string transport_to(const group& of, int rank, bool on_devices) {
  const int peer = of.member(rank);
  if (on_devices) return std::string(of.over().kind_to(peer));
  return of.over().path_to(peer, memory_kind::host, memory_kind::host);
}

asio::awaitable<std::string> measure_pair(communicator& all, int peer, std::string_view name,
                                          const buffer& scratch, bool on_devices) {
  const std::uint64_t latency = co_await latency_ns(all, peer, scratch.view());
  const std::uint64_t rate = co_await bytes_per_us(all, peer, scratch.view());
  co_await all.send(peer, const_view(), probe_tag);
  const group& of = *all.internals();
  const path_facts found{.channel = transport_to(of, peer, on_devices),
                         .rails = of.to(peer).on->rails().size(),
                         .latency_ns = rounded(latency),
                         .bytes_per_us = rounded(rate)};
  co_return found.text(name);
}

}  // namespace

std::uint64_t rounded(std::uint64_t value) noexcept {
  std::uint64_t unit = 1;
  while (value / unit >= 100) unit *= 10;
  return std::max<std::uint64_t>((value + unit / 2) / unit * unit, 1);
}

asio::awaitable<std::string> probe(communicator& all, const layout& where, const_view like,
                                   bool on_devices) {
  std::string found;
  const std::optional<pair> within = pair_within(where), across = pair_across(where);
  const auto is_in = [&all](const std::optional<pair>& p) {
    return p && (p->first == all.rank() || p->second == all.rank());
  };
  if (!is_in(within) && !is_in(across)) co_return found;
  {
    // Devices are so much faster that messages of the host's length would measure only latency.
    const buffer scratch(on_devices ? max_device_bytes : max_host_bytes, like.kind, like.device);
    if (is_in(within) && within->first == all.rank()) {
      found += co_await measure_pair(all, within->second, "within", scratch, on_devices);
    } else if (is_in(within)) {
      co_await echo(all, within->first, scratch);
    }
    if (is_in(across) && across->first == all.rank()) {
      found += co_await measure_pair(all, across->second, "across", scratch, on_devices);
    } else if (is_in(across)) {
      co_await echo(all, across->first, scratch);
    }
  }
  for (const std::optional<pair>& each : {within, across}) {
    if (!is_in(each)) continue;
    const int peer = each->first == all.rank() ? each->second : each->first;
    all.internals()->to(peer).on->retire_freed_memory();
  }
  co_return found;
}

}  // namespace tandem::detail
