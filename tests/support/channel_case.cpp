#include "support/channel_case.hpp"

namespace tandem::test {
namespace {

awaitable<void> with_pair(const channel_case& kind, channel_test::body run, settings options,
                          bool swapped) {
  channel_pair pair = co_await kind.connect(std::move(options));
  if (swapped) std::swap(pair.first, pair.second);
  co_await run(*pair.first, *pair.second);
}

awaitable<void> with_owned_pair(const channel_case& kind, channel_test::owning_body run,
                                settings options, bool swapped) {
  channel_pair pair = co_await kind.connect(std::move(options));
  if (swapped) std::swap(pair.first, pair.second);
  co_await run(std::move(pair.first), std::move(pair.second));
}

}  // namespace

void channel_test::both_ways(body run, const settings& options) {
  for (const bool swapped : {false, true}) {
    SCOPED_TRACE(swapped ? "second end to first" : "first end to second");
    run_test(with_pair(GetParam(), run, options, swapped), GetParam().how);
  }
}

void channel_test::both_ways(owning_body run, const settings& options) {
  for (const bool swapped : {false, true}) {
    SCOPED_TRACE(swapped ? "second end to first" : "first end to second");
    run_test(with_owned_pair(GetParam(), run, options, swapped), GetParam().how);
  }
}

settings small_settings() {
  settings s;
  s.eager_bytes = 256;
  s.chunk_bytes = 1024;
  s.credit_bytes = 16 * 1024;
  s.max_flows = 64;
  return s;
}

settings with_secret(std::string_view text) {
  settings s = small_settings();
  s.job_secret = secret(text);
  return s;
}

awaitable<void> send_pattern(channel& on, flow_id flow, std::size_t bytes, std::uint64_t seed) {
  const std::vector<std::byte> message = pattern(bytes, seed);
  co_await on.send(flow, message);
}

awaitable<void> recv_pattern(channel& on, flow_id flow, std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> into(bytes);
  const std::size_t length = co_await on.recv(flow, into);
  EXPECT_EQ(length, bytes);
  EXPECT_EQ(first_wrong(std::span(into).first(std::min(length, bytes)), seed), std::nullopt)
      << "flow " << flow << ", message of " << bytes << " bytes";
}

awaitable<void> expect_usable(channel& from, channel& to, flow_id flow) {
  background there(from.get_executor(), send_pattern(from, flow, 100, 7001));
  co_await recv_pattern(to, flow, 100, 7001);
  background back(to.get_executor(), send_pattern(to, flow, 5000, 7002));
  co_await recv_pattern(from, flow, 5000, 7002);
  co_await there.result();
  co_await back.result();
}

awaitable<void> until_unexpected(channel& end, std::uint64_t bytes) {
  const auto has_come = [&end, bytes] { return end.stats().unexpected_bytes == bytes; };
  co_await until(has_come, std::to_string(bytes) + " unexpected bytes");
}

}  // namespace tandem::test
