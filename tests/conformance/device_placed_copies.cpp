// Long messages that the sender's copy engine writes into the receiver's view, step by step.

#include <thread>

#include "conformance/peers_rig.hpp"

namespace tandem::test {
namespace {

/// PLACED_TEST(name) { body of a coroutine with `all`, whose ends have opened each other's memory }
#define PLACED_TEST(name)                                        \
  static awaitable<void> placed_##name(peers&);                  \
  TEST(PlacedCopies, name) {                                     \
    gpus_of_this_test();                                         \
    const copying_body run = [](peers& all) -> awaitable<void> { \
      co_await all.warm_up_both();                               \
      co_await placed_##name(all);                               \
    };                                                           \
    run_test(with_peers(run), drive::by_asio, 60s);              \
  }                                                              \
  static awaitable<void> placed_##name(peers& all)

PLACED_TEST(ALongMessageIsOneCopyByItsSender) {
  for (const std::size_t bytes : {std::size_t{1025}, std::size_t{20'001}, std::size_t{1} << 20}) {
    const auto before = all.gpus.seen();
    const std::uint64_t below = all.below->stats().messages_sent;
    co_await all.transfer(bytes, bytes);
    EXPECT_EQ(all.gpus.seen().copies - before.copies, 1U) << bytes;
    EXPECT_EQ(all.gpus.seen().copied_bytes - before.copied_bytes, bytes);
    EXPECT_EQ(all.below->stats().messages_sent - below, 2U) << "announced, and done";
  }
  all.gpus.fail("cuMemcpyAsync", 1, 999);
  background receiver(all.to->get_executor(), all.to->recv(0, all.into.view()));
  const auto of_send =
      co_await failure_of(all.from->send(0, const_view(all.text.view()).part(0, 20'000)));
  expect_error(of_send, errc::device_failed, {"cuMemcpyAsync"});
  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, errc::message_cancelled);
  co_await all.transfer(5000, 8);
}

PLACED_TEST(AShorterMessageThanItsView) {
  all.write(all.text, 5000, 3);
  all.write(all.into, 6000, 4);
  background receiver(all.to->get_executor(), all.to->recv(0, all.into.view()));
  co_await all.from->send(0, const_view(all.text.view()).part(0, 5000));
  const std::size_t came = co_await receiver.result();
  EXPECT_EQ(came, 5000U);
  EXPECT_EQ(first_wrong(all.read(all.into, 5000), 3), std::nullopt);
  const std::vector<std::byte> kept = pattern(6000, 4);
  EXPECT_TRUE(std::equal(kept.begin() + 5000, kept.end(), all.read(all.into, 6000).begin() + 5000));
}

PLACED_TEST(ACancelledReceiveCompletesWhenNothingIsWrittenAnyMore) {
  co_await all.by_hand();
  held_message held(all, 50'000);
  co_await until_queued(all);
  held.receiver.cancel();
  co_await expect_waiting(held.receiver);
  const auto of_recv = co_await run_until_over(held.receiver, all);
  expect_aborted(of_recv);
  const auto of_send = co_await run_until_over(held.sender, all);
  EXPECT_FALSE(of_send);
  all.gpus.manual(false);
  co_await all.transfer(50'000, 8);
}

PLACED_TEST(AReceiveCancelledBeforeItsMessageIsNotWritten) {
  background receiver(all.to->get_executor(), all.to->recv(0, all.into.view()));
  co_await turns(20);
  receiver.cancel();
  const auto of_recv = co_await receiver.failure();
  expect_aborted(of_recv);
  co_await all.transfer(50'000, 8);
}

PLACED_TEST(ACancelledSendCompletesWhenItWritesNoMore) {
  co_await all.by_hand();
  held_message held(all);
  co_await until_queued(all);
  held.sender.cancel();
  co_await expect_waiting(held.sender);
  const auto of_send = co_await run_until_over(held.sender, all);
  if (of_send) expect_aborted(of_send);
  const auto of_recv = co_await run_until_over(held.receiver, all);
  EXPECT_EQ(of_recv.has_value(), of_send.has_value());
  all.gpus.manual(false);
  co_await all.transfer(50'000, 8);
}

PLACED_TEST(ASenderThatClosesWritesIntoNoReleasedView) {
  co_await all.by_hand();
  held_message held(all);
  co_await until_queued(all);
  const auto closed = std::chrono::steady_clock::now();
  all.from->close();
  co_await expect_waiting(held.sender);
  const auto of_send = co_await run_until_over(held.sender, all);
  expect_error(of_send, errc::channel_closed);
  const auto of_recv = co_await run_until_over(held.receiver, all);
  expect_error(of_recv, errc::peer_closed);
  EXPECT_GE(std::chrono::steady_clock::now() - closed, 200ms) << "time for what it had begun";
}

PLACED_TEST(AReceiverThatClosesReleasesItsViewWhenNothingWritesIt) {
  co_await all.by_hand();
  held_message held(all);
  co_await until_queued(all);
  const auto closed = std::chrono::steady_clock::now();
  all.to->close();
  co_await expect_waiting(held.receiver);
  const auto of_send = co_await run_until_over(held.sender, all);
  expect_error(of_send, errc::peer_closed);
  const auto of_recv = co_await run_until_over(held.receiver, all);
  expect_error(of_recv, errc::channel_closed);
  EXPECT_GE(std::chrono::steady_clock::now() - closed, 200ms);
}

PLACED_TEST(ManyAtATimeAndBothWays) {
  constexpr std::size_t each = 5001, count = 60;
  all.write(all.text, each * count, 9);
  const buffer back(each * count, memory_kind::cuda, 0);
  std::vector<std::unique_ptr<background>> parts;
  const auto add = [&](auto work) {
    parts.push_back(std::make_unique<background>(all.from->get_executor(), std::move(work)));
  };
  for (std::size_t i = 0; i < count; ++i) {
    add(all.from->send(1, const_view(all.text.view()).part(i * each, each)));
    add(all.to->recv(1, all.into.view().part(i * each, each)));
    add(all.from->recv(2, back.view().part(i * each, each)));
    add(all.to->send(2, const_view(all.into.view()).part(i * each, each)));
    if (i % 10 == 9) co_await turns(5);
  }
  for (const auto& part : parts) {
    const auto failure = co_await part->failure();
    EXPECT_FALSE(failure);
  }
  EXPECT_EQ(first_wrong(all.read(all.into, each * count), 9), std::nullopt);
}

PLACED_TEST(ThousandsOfOperationsLeakNothing) {
  for (int i = 0; i < 20; ++i) co_await all.transfer(5000 + 37 * static_cast<std::size_t>(i), 2);
  const auto before = all.gpus.open();
  for (int i = 0; i < 1000; ++i) co_await all.transfer(5001, 2);
  EXPECT_EQ(all.gpus.open(), before);
}

/// The engine that writes serves one stream until it is empty, and readers wait as well.
PLACED_TEST(ALongMessageIsWrittenInPiecesWhileThePeerReads) {
  constexpr std::size_t bytes = std::size_t{40} << 20;
  const buffer text(bytes, memory_kind::cuda, 0), into(bytes, memory_kind::cuda, 1);
  std::size_t copies = 0;
  const auto send_long = [&](flow_id flow) -> awaitable<void> {
    const std::size_t before = all.gpus.seen().copies;
    background receiver(all.to->get_executor(), all.to->recv(flow, into.view()));
    background sender(all.from->get_executor(), all.from->send(flow, text.view()));
    for (background* const each : {&receiver, &sender}) {
      const auto failure = co_await run_until_over(*each, all);
      EXPECT_FALSE(failure);
    }
    copies = all.gpus.seen().copies - before;
  };
  for (int i = 0; i < 2; ++i) {
    co_await send_long(0);
    std::this_thread::sleep_for(20ms);
  }
  co_await send_long(0);
  EXPECT_EQ(copies, 1U);
  co_await all.by_hand();
  background shorts(all.to->get_executor(), all.to->recv(2, all.into.view().part(0, 100)));
  background short_sender(all.from->get_executor(),
                          all.from->send(2, const_view(all.text.view()).part(0, 100)));
  co_await until_queued(all);
  co_await send_long(1);
  EXPECT_GE(copies, 3U) << "one is the short message";
  for (background* const each : {&shorts, &short_sender}) {
    const auto failure = co_await run_until_over(*each, all);
    EXPECT_FALSE(failure);
  }
}

}  // namespace
}  // namespace tandem::test
