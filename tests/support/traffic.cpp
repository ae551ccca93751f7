#include "support/traffic.hpp"

#include <random>

namespace tandem::test {
namespace {

/// The same lengths at both ends: 0, short ones, and some that take several chunks.
std::vector<std::size_t> lengths(std::uint32_t seed, const traffic::shape& as) {
  std::mt19937 random(seed);
  std::vector<std::size_t> all;
  for (int i = 0; i < as.messages; ++i) {
    const std::size_t most = random() % 2 == 0 ? 300 : as.max_bytes;
    all.push_back(random() % (most + 1));
  }
  return all;
}

awaitable<void> send_all(channel& on, flow_id flow, std::uint32_t seed, traffic::shape as) {
  std::uint64_t number = seed;
  const std::vector<std::size_t> all = lengths(seed, as);
  for (const std::size_t bytes : all) co_await send_pattern(on, flow, bytes, number++);
}

awaitable<void> recv_all(channel& on, flow_id flow, std::uint32_t seed, traffic::shape as) {
  std::uint64_t number = seed;
  const std::vector<std::size_t> all = lengths(seed, as);
  for (const std::size_t bytes : all) co_await recv_pattern(on, flow, bytes, number++);
}

}  // namespace

traffic::traffic(channel& first, channel& second, std::uint32_t seed, shape as) {
  const asio::any_io_executor executor = first.get_executor();
  for (int i = 0; i < as.flows; ++i) {
    const auto flow = static_cast<flow_id>(i);
    const std::uint32_t there = seed * 1000 + static_cast<std::uint32_t>(i) * 100,
                        back = there + 50;
    parts_.emplace_back(executor, send_all(first, flow, there, as));
    parts_.emplace_back(executor, recv_all(second, flow, there, as));
    parts_.emplace_back(executor, send_all(second, flow, back, as));
    parts_.emplace_back(executor, recv_all(first, flow, back, as));
  }
}

awaitable<void> traffic::result() {
  for (background& one : parts_) co_await one.result();
}

bool traffic::is_over() const noexcept {
  for (const background& one : parts_) {
    if (!one.is_over()) return false;
  }
  return true;
}

}  // namespace tandem::test
