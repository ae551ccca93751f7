// Device memory through pinned staging that both processes map, step by step.

#include "conformance/peers_rig.hpp"

namespace tandem::test {
namespace {

settings without_peer_copies() {
  settings made = small_settings();
  made.peer_copies = false;
  return made;
}

/// Bytes that the inner channel has carried.
std::uint64_t carried(const peers& all) {
  return all.below->stats().bytes_sent;
}

/// STAGING_TEST(name) { body of a coroutine with `all` }
#define STAGING_TEST(name)                                                               \
  static awaitable<void> shared_##name(peers&);                                          \
  TEST(SharedStaging, name) {                                                            \
    gpus_of_this_test();                                                                 \
    run_test(with_peers(shared_##name, {}, without_peer_copies()), drive::by_asio, 60s); \
  }                                                                                      \
  static awaitable<void> shared_##name(peers& all)

STAGING_TEST(NoProcessorTouchesAByte) {
  co_await all.warm_up_both();
  EXPECT_EQ(all.gpus.open().registrations, 2U) << "by each end";
  for (const std::size_t bytes : {std::size_t{5001}, std::size_t{100'000}, std::size_t{1} << 20}) {
    const auto before = all.gpus.seen();
    const std::uint64_t below = carried(all);
    co_await all.transfer(bytes, bytes);
    const auto after = all.gpus.seen();
    EXPECT_EQ(after.copied_bytes - before.copied_bytes, 2 * bytes);
    EXPECT_LT(carried(all) - below, bytes / 4) << "frames alone";
  }
  EXPECT_EQ(all.gpus.seen().pageable_copies, 0U);
  EXPECT_EQ(all.gpus.calls("cuIpcGetMemHandle"), 0U);
  EXPECT_EQ(all.gpus.seen().launches, 0U);
}

STAGING_TEST(HostViewsAreFilledToo) {
  co_await all.warm_up_both();
  all.write(all.text, 50'000, 3);
  std::vector<std::byte> here(50'000);
  const std::uint64_t below = carried(all);
  background sender(all.from->get_executor(),
                    all.from->send(0, const_view(all.text.view()).part(0, 50'000)));
  const std::size_t came = co_await all.to->recv(0, here);
  EXPECT_EQ(came, 50'000U);
  co_await sender.result();
  EXPECT_EQ(first_wrong(here, 3), std::nullopt);
  EXPECT_LT(carried(all) - below, 10'000U);
}

STAGING_TEST(ACancelledReceiveCompletesWhenNothingIsCopiedAnyMore) {
  co_await all.warm_up_both();
  co_await all.by_hand();
  held_message held(all, 50'000);
  const std::size_t before = all.gpus.seen().copies;
  const auto is_filling = [&all, before] {
    if (all.gpus.seen().copies < before + 1) all.gpus.step();
    return all.gpus.seen().copies > before && all.gpus.queued() > 0;
  };
  co_await until(is_filling, "a piece that is there");
  co_await turns(20);
  held.receiver.cancel();
  const auto of_recv = co_await run_until_over(held.receiver, all);
  expect_aborted(of_recv);
  const auto of_send = co_await run_until_over(held.sender, all);
  EXPECT_FALSE(of_send);
  all.gpus.manual(false);
  co_await all.transfer(50'000, 8);
}

STAGING_TEST(ACancelledSendCompletesWhenNothingIsCopiedAnyMore) {
  co_await all.warm_up_both();
  co_await all.by_hand();
  held_message held(all);
  co_await until_queued(all);
  held.sender.cancel();
  co_await expect_waiting(held.sender);
  const auto of_send = co_await run_until_over(held.sender, all);
  expect_aborted(of_send);
  const auto of_recv = co_await run_until_over(held.receiver, all);
  expect_error(of_recv, errc::message_cancelled);
  all.gpus.manual(false);
  co_await all.transfer(50'000, 8);
}

STAGING_TEST(ASenderThatClosesKeepsItsViewUntilNothingIsCopied) {
  co_await all.warm_up_both();
  co_await all.by_hand();
  held_message held(all);
  co_await until_queued(all);
  all.from->close();
  co_await expect_waiting(held.sender);
  const auto of_send = co_await run_until_over(held.sender, all);
  expect_error(of_send, errc::channel_closed);
  const auto of_recv = co_await run_until_over(held.receiver, all);
  expect_error(of_recv, errc::peer_closed);
}

STAGING_TEST(AReceiverThatClosesEndsBoth) {
  co_await all.warm_up_both();
  co_await all.by_hand();
  held_message held(all);
  co_await until_queued(all);
  all.to->close();
  const auto of_recv = co_await run_until_over(held.receiver, all);
  expect_error(of_recv, errc::channel_closed);
  const auto of_send = co_await run_until_over(held.sender, all);
  expect_error(of_send, errc::peer_closed);
}

/// @param at_copy  1: the first copy out of the sender's memory
awaitable<void> fail_one(peers& all, int at_copy, errc of_sender, errc of_receiver) {
  all.gpus.fail("cuMemcpyAsync", at_copy, 999);
  background receiver(all.to->get_executor(), all.to->recv(0, all.into.view()));
  background sender(all.from->get_executor(),
                    all.from->send(0, const_view(all.text.view()).part(0, 3000)));
  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, of_receiver);
  const auto of_send = co_await sender.failure();
  if (of_sender == errc{}) {
    EXPECT_FALSE(of_send);
  } else {
    expect_error(of_send, of_sender);
  }
  co_await all.transfer(50'000, 8);
}

STAGING_TEST(ACopyThatFailsEndsItsMessageAlone) {
  co_await all.warm_up_both();
  co_await fail_one(all, 1, errc::device_failed, errc::message_cancelled);
  co_await fail_one(all, 4, errc{}, errc::device_failed);
}

STAGING_TEST(MemoryThatItsOwnerCannotPinIsCopied) {
  all.gpus.fail("cuMemHostRegister", 1, 801);
  co_await all.warm_up_both();
  co_await all.transfer(100'000, 5);
  EXPECT_EQ(all.gpus.open().registrations, 0U);
}

STAGING_TEST(MemoryThatThePeerCannotPinIsCopied) {
  all.gpus.fail("cuMemHostRegister", 2, 801);
  co_await all.warm_up_both();
  const std::uint64_t below = carried(all);
  co_await all.transfer(100'000, 5);
  EXPECT_GE(carried(all) - below, 100'000U);
  EXPECT_EQ(all.gpus.open().registrations, 1U);
}

STAGING_TEST(BothWaysAtOnce) {
  co_await all.warm_up_both();
  const buffer back(300'000, memory_kind::cuda, 0);
  all.write(all.text, 300'000, 2);
  background there(all.from->get_executor(),
                   all.from->send(1, const_view(all.text.view()).part(0, 300'000)));
  background echo_in(all.to->get_executor(), all.to->recv(1, all.into.view()));
  co_await there.result();
  co_await echo_in.result();
  for (int i = 0; i < 3; ++i) {
    background one(all.from->get_executor(),
                   all.from->send(1, const_view(all.text.view()).part(0, 300'000)));
    background two(all.to->get_executor(),
                   all.to->send(2, const_view(all.into.view()).part(0, 300'000)));
    background three(all.from->get_executor(), all.from->recv(2, back.view()));
    const buffer other(300'000, memory_kind::cuda, 1);
    background four(all.to->get_executor(), all.to->recv(1, other.view()));
    co_await one.result();
    co_await two.result();
    co_await three.result();
    co_await four.result();
    EXPECT_EQ(first_wrong(all.read(back, 300'000), 2), std::nullopt);
    EXPECT_EQ(first_wrong(all.read(other, 300'000), 2), std::nullopt);
  }
  EXPECT_EQ(all.gpus.open().registrations, 4U);
}

STAGING_TEST(ThousandsOfOperationsLeakNothing) {
  co_await all.warm_up_both();
  for (int i = 0; i < 20; ++i) co_await all.transfer(5000 + 37 * static_cast<std::size_t>(i), 2);
  const auto before = all.gpus.open();
  for (int i = 0; i < 1000; ++i) co_await all.transfer(5001, 2);
  EXPECT_EQ(all.gpus.open(), before);
}

TEST(SharedStaging, CanBeDisabled) {
  gpus_of_this_test();
  settings options = without_peer_copies();
  options.shared_staging = false;
  const copying_body run = [](peers& all) -> awaitable<void> {
    co_await all.warm_up_both();
    EXPECT_EQ(all.gpus.calls("cuMemHostRegister"), 0U);
  };
  run_test(with_peers(run, {}, options));
}

}  // namespace
}  // namespace tandem::test
