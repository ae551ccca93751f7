// Random messages, flows, sizes and cancellations, both ways; every byte that arrives is checked.

#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <random>

#include "support/channel_case.hpp"
#include "support/sanitized.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t longest = 20'000;
constexpr std::uint64_t messages_per_flow = unless_sanitized(120, 40);
constexpr std::uint64_t last = ~std::uint64_t{0};

/// A message that identifies itself: its number, then the pattern of that number.
std::vector<std::byte> numbered(std::uint64_t number, std::size_t bytes) {
  std::vector<std::byte> message(8 + bytes);
  std::memcpy(message.data(), &number, 8);
  fill(std::span(message).subspan(8), number);
  return message;
}

struct flow_record {
  std::vector<std::uint64_t> sent;
  std::vector<std::uint64_t> received;
  std::size_t recvs_cancelled = 0;
};

awaitable<void> sender(channel& on, flow_id flow, std::uint64_t seed, flow_record& record) {
  std::mt19937_64 random(seed);
  for (std::uint64_t number = 0; number < messages_per_flow; ++number) {
    const std::size_t bytes = random() % 2 == 0 ? random() % 200 : random() % longest;
    const std::vector<std::byte> message = numbered(number, bytes);
    background send(on.get_executor(), on.send(flow, message));
    if (random() % 4 == 0) {
      co_await turns(static_cast<int>(random() % 6));
      send.cancel();
    }
    const auto failure = co_await send.failure();
    if (failure) {
      expect_aborted(failure);
    } else {
      record.sent.push_back(number);
    }
  }
  co_await on.send(flow, numbered(last, 0));
}

void check(std::span<const std::byte> message, flow_record& record) {
  std::uint64_t number = 0;
  std::memcpy(&number, message.data(), 8);
  require(first_wrong(message.subspan(8), number) == std::nullopt,
          "message " + std::to_string(number) + " has wrong bytes");
  record.received.push_back(number);
}

awaitable<void> receiver(channel& on, flow_id flow, std::uint64_t seed, flow_record& record) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> into(8 + longest);
  while (record.received.empty() || record.received.back() != last) {
    background receive(on.get_executor(), on.recv(flow, into));
    // The last message must not be dropped, so no receive that may match it is cancelled.
    const bool is_early = record.received.size() < messages_per_flow / 3;
    if (is_early && random() % 4 == 0) {
      co_await turns(static_cast<int>(random() % 6));
      receive.cancel();
    }
    const auto failure = co_await receive.failure();
    if (!failure) {
      const std::size_t length = co_await receive.result();
      check(std::span(into).first(length), record);
    } else if (failure->code() == asio::error::operation_aborted) {
      ++record.recvs_cancelled;
    } else {
      expect_error(failure, errc::message_cancelled);
    }
    if (random() % 3 == 0) co_await turns(static_cast<int>(random() % 8));
  }
  record.received.pop_back();
}

awaitable<void> soak(channel& from, channel& to, std::uint64_t seed) {
  constexpr flow_id flows = 5;
  std::vector<flow_record> there(flows), back(flows);
  std::vector<background> parts;
  for (flow_id f = 0; f < flows; ++f) {
    parts.emplace_back(from.get_executor(), sender(from, f, seed + f, there[f]));
    parts.emplace_back(to.get_executor(), receiver(to, f, seed + 100 + f, there[f]));
    parts.emplace_back(to.get_executor(), sender(to, f, seed + 200 + f, back[f]));
    parts.emplace_back(from.get_executor(), receiver(from, f, seed + 300 + f, back[f]));
  }
  for (background& part : parts) co_await part.result();
  for (const auto* direction : {&there, &back}) {
    for (const flow_record& record : *direction) {
      EXPECT_TRUE(std::is_sorted(record.received.begin(), record.received.end()));
      EXPECT_TRUE(std::includes(record.sent.begin(), record.sent.end(), record.received.begin(),
                                record.received.end()))
          << "a message arrived that was cancelled";
      EXPECT_LE(record.received.size(), record.sent.size());
      EXPECT_GE(record.received.size() + record.recvs_cancelled, record.sent.size());
    }
  }
  EXPECT_EQ(from.stats().unexpected_bytes, 0u);
  EXPECT_EQ(to.stats().unexpected_bytes, 0u);
}

std::uint64_t soak_seed = 1;

awaitable<void> soak_body(channel& from, channel& to) {
  co_await soak(from, to, soak_seed);
}

}  // namespace

TEST_P(channel_test, soak) {
  for (soak_seed = 1; soak_seed <= 4; ++soak_seed) {
    SCOPED_TRACE("seed " + std::to_string(soak_seed));
    both_ways(soak_body, small_settings());
  }
}

}  // namespace tandem::test
