// Messages of every length concurrent with an endless stream of long ones, on copy engines that
// serve one stream until it is empty.

#include "conformance/peers_rig.hpp"

namespace tandem::test {
namespace {

constexpr flow_id of_others = 100;
constexpr std::size_t each_bytes = std::size_t{17} << 20;
/// More than fit in two copy calls, so that one always waits.
constexpr flow_id at_once = 40;

/// Long messages one after the other.
awaitable<void> stream_long(channel& on, flow_id flow, bool sends, mutable_view all, int& count) {
  for (;;) {
    if (sends) {
      co_await on.send(flow, all);
      ++count;
    } else {
      co_await on.recv(flow, all);
    }
  }
}

/// Messages of every length, one at a time.
awaitable<void> send_others(peers& all) {
  // Wait until the long messages are in progress.
  const auto have_begun = [&all] { return all.gpus.seen().copied_bytes > 2 * each_bytes; };
  co_await until(have_begun, "long messages");
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{5000},
                                    std::size_t{100'000}, std::size_t{1} << 20}) {
      all.write(all.text, bytes, round + bytes);
      background receiver(all.to->get_executor(),
                          all.to->recv(of_others, all.into.view().part(0, bytes)));
      co_await all.from->send(of_others, const_view(all.text.view()).part(0, bytes));
      const std::size_t came = co_await receiver.result();
      EXPECT_EQ(came, bytes);
      expect_pattern(all.gpus, all.into, bytes, round + bytes);
    }
  }
}

awaitable<void> all_lengths_with_long_messages(peers& all) {
  const buffer text(each_bytes, memory_kind::cuda, 0), into(each_bytes, memory_kind::cuda, 1);
  write_pattern(all.gpus, text, each_bytes, 77);
  co_await all.warm_up_both();
  int long_count = 0, unused = 0;
  std::vector<std::unique_ptr<background>> parts;
  for (flow_id flow = 0; flow < at_once; ++flow) {
    parts.push_back(std::make_unique<background>(
        all.from->get_executor(), stream_long(*all.from, flow, true, text.view(), long_count)));
    parts.push_back(std::make_unique<background>(
        all.to->get_executor(), stream_long(*all.to, flow, false, into.view(), unused)));
  }
  co_await send_others(all);
  EXPECT_GT(long_count, 5) << "long messages continued";
  for (const auto& each : parts) each->cancel();
  for (const auto& each : parts) co_await each->failure();  // any result is fine
  expect_pattern(all.gpus, into, each_bytes, 77);
}

TEST(DeviceContention, MessagesOfEveryLengthWithAnEndlessStreamOfLongOnes) {
  cuda_double::options as;
  as.greedy_engines = true;
  as.max_delay = 1ms;  // so that more copies are requested before an engine runs empty
  gpus_of_this_test(as);
  run_test(with_peers(all_lengths_with_long_messages, as), drive::by_spinning, 100s);
}

}  // namespace
}  // namespace tandem::test
