// Peer copies step by step: what is sent as a reference, what completes late, and what is left
// behind.

#include "conformance/peers_rig.hpp"

namespace tandem::test {
namespace {

PEER_TEST(AMessageIsOneCopyWhateverItsLengthAndNoKernel) {
  co_await all.warm_up();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{8}, std::size_t{1000},
                                  std::size_t{20'001}, std::size_t{1} << 20}) {
    const auto before = all.gpus.seen();
    co_await all.transfer(bytes, bytes);
    const auto after = all.gpus.seen();
    EXPECT_EQ(after.copied_bytes - before.copied_bytes, bytes) << "nothing by way of the host";
    EXPECT_TRUE(after.copies - before.copies == 1 || bytes > 1000 * 1000) << bytes;
  }
  EXPECT_EQ(all.gpus.seen().launches, 0U);
}

PEER_TEST(BothWaysAtOnceAndManyAtATime) {
  co_await all.warm_up();
  constexpr std::size_t each = 3001, count = 100;
  all.write(all.text, each * count, 9);
  std::vector<std::unique_ptr<background>> parts;
  const auto add = [&](awaitable<std::size_t> work) {
    parts.push_back(std::make_unique<background>(all.from->get_executor(), std::move(work)));
  };
  const auto add_send = [&](awaitable<void> work) {
    parts.push_back(std::make_unique<background>(all.from->get_executor(), std::move(work)));
  };
  const buffer back(each * count, memory_kind::cuda, 0);
  for (std::size_t i = 0; i < count; ++i) {
    add_send(all.from->send(1, const_view(all.text.view()).part(i * each, each)));
    add(all.to->recv(1, all.into.view().part(i * each, each)));
  }
  for (const auto& each_part : parts) {
    const auto failure = co_await each_part->failure();
    EXPECT_FALSE(failure);
  }
  EXPECT_EQ(first_wrong(all.read(all.into, each * count), 9), std::nullopt);
  parts.clear();
  for (std::size_t i = 0; i < count; ++i) {
    add_send(all.to->send(2, const_view(all.into.view()).part(i * each, each)));
    add(all.from->recv(2, back.view().part(i * each, each)));
  }
  for (const auto& each_part : parts) {
    const auto failure = co_await each_part->failure();
    EXPECT_FALSE(failure);
  }
  EXPECT_EQ(first_wrong(all.read(back, each * count), 9), std::nullopt);
}

PEER_TEST(AMessageWithoutAReceiveIsReadAtOnce) {
  co_await all.warm_up();
  all.write(all.text, 200, 3);
  co_await all.from->send(0, const_view(all.text.view()).part(0, 200));
  all.write(all.text, 200, 4);
  const std::size_t came = co_await all.to->recv(0, all.into.view());
  EXPECT_EQ(came, 200U);
  EXPECT_EQ(first_wrong(all.read(all.into, 200), 3), std::nullopt);
}

PEER_TEST(HostViewsAreFilledToo) {
  co_await all.warm_up();
  all.write(all.text, 20'000, 3);
  std::vector<std::byte> here(20'000);
  background sender(all.from->get_executor(),
                    all.from->send(0, const_view(all.text.view()).part(0, 20'000)));
  const std::size_t came = co_await all.to->recv(0, here);
  EXPECT_EQ(came, 20'000U);
  co_await sender.result();
  EXPECT_EQ(first_wrong(here, 3), std::nullopt);
}

PEER_TEST(ACancelledReceiveCompletesWhenNothingIsReadAnyMore) {
  co_await all.warm_up();
  co_await all.by_hand();
  held_message held(all, 50'000);
  co_await until_queued(all);
  held.receiver.cancel();
  co_await expect_waiting(held.receiver);
  EXPECT_FALSE(held.sender.is_over());
  const auto failure = co_await run_until_over(held.receiver, all);
  expect_aborted(failure);
  const auto of_send = co_await run_until_over(held.sender, all);
  EXPECT_FALSE(of_send);
  all.gpus.manual(false);
  co_await all.transfer(5000, 8);
}

PEER_TEST(ACancelledSendCompletesWhenThePeerReadsNoMore) {
  co_await all.warm_up();
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
  co_await all.transfer(5000, 8);
}

PEER_TEST(AReferenceOfASenderThatClosedIsNotUsed) {
  co_await all.warm_up();
  co_await all.by_hand();
  held_message held(all);
  co_await until_queued(all);
  all.from->close();
  co_await expect_waiting(held.receiver);
  const auto of_recv = co_await run_until_over(held.receiver, all);
  expect_error(of_recv, errc::peer_closed);
  const auto of_send = co_await held.sender.failure();
  expect_error(of_send, errc::channel_closed);
}

PEER_TEST(AReaderThatClosesReleasesTheSendersView) {
  co_await all.warm_up();
  co_await all.by_hand();
  held_message held(all);
  co_await until_queued(all);
  all.to->close();
  co_await expect_waiting(held.receiver);
  const auto of_send = co_await held.sender.failure();
  expect_error(of_send, errc::peer_closed);
  const auto of_recv = co_await run_until_over(held.receiver, all);
  expect_error(of_recv, errc::channel_closed);
}

PEER_TEST(ACopyThatFailsEndsItsReceiveAlone) {
  co_await all.warm_up();
  all.gpus.fail("cuMemcpyAsync", 1, 999);
  background receiver(all.to->get_executor(), all.to->recv(0, all.into.view()));
  co_await all.from->send(0, const_view(all.text.view()).part(0, 20'000));
  const auto failure = co_await receiver.failure();
  expect_error(failure, errc::device_failed, {"cuMemcpyAsync"});
  co_await all.transfer(5000, 8);
}

PEER_TEST(MemoryThatCannotBeOpenedIsForwarded) {
  for (const int each : {1, 2}) all.gpus.fail("cuIpcOpenMemHandle", each, 201);
  for (int i = 0; i < 4; ++i) {
    co_await all.transfer(20'000, 5);
    co_await turns(20);
  }
  EXPECT_EQ(all.gpus.calls("cuIpcOpenMemHandle"), 2U) << "tried once by each end";
  EXPECT_EQ(all.gpus.open().openings, 0U);
}

PEER_TEST(MemoryThatOneEndCannotOpenIsCopiedByTheOther) {
  all.gpus.fail("cuIpcOpenMemHandle", 1, 201);
  co_await all.transfer(20'000, 5);
  co_await turns(20);
  for (int i = 0; i < 3; ++i) {
    const auto before = all.gpus.seen();
    co_await all.transfer(20'000, 5);
    EXPECT_EQ(all.gpus.seen().copies - before.copies, 1U);
  }
  EXPECT_EQ(all.gpus.open().openings, 1U);
}

PEER_TEST(MemoryThatIsNotExportedIsForwarded) {
  for (const int each : {1, 2}) all.gpus.fail("cuIpcGetMemHandle", each, 1);
  for (int i = 0; i < 4; ++i) co_await all.transfer(20'000, 5);
  EXPECT_EQ(all.gpus.calls("cuIpcGetMemHandle"), 2U);
  EXPECT_EQ(all.gpus.calls("cuIpcOpenMemHandle"), 0U);
}

TEST(PeerCopies, DevicesWithoutPeerAccessForward) {
  cuda_double::options apart;
  apart.peers.emplace();
  gpus_of_this_test(apart);
  const copying_body run = [](peers& all) -> awaitable<void> {
    for (int i = 0; i < 4; ++i) co_await all.transfer(20'000, 5);
    EXPECT_EQ(all.gpus.calls("cuIpcOpenMemHandle"), 0U);
  };
  run_test(with_peers(run, apart));
}

PEER_TEST(MemoryThatIsAllocatedAgainIsOpenedAgain) {
  for (int i = 0; i < 5; ++i) {
    co_await all.warm_up();
    co_await all.transfer(20'000, 3);
    all.text = buffer();
    all.text = buffer(1 << 20, memory_kind::cuda, 0);
  }
  co_await all.warm_up();
  co_await turns(20);
  EXPECT_EQ(all.gpus.open().openings, 2U) << "one each way; what is gone was closed";
}

PEER_TEST(FreedMemoryIsClosedWhenItsOwnerSaysSo) {
  co_await all.warm_up_both();
  EXPECT_EQ(all.gpus.open().openings, 2U) << "one each way";
  all.text = buffer();
  co_await turns(20);
  EXPECT_EQ(all.gpus.open().openings, 2U);
  for (channel* const each : {all.from.get(), all.to.get()}) {
    each->retire_freed_memory();
    co_await turns(20);
    EXPECT_EQ(all.gpus.open().openings, 1U);
  }
  all.text = buffer(1 << 20, memory_kind::cuda, 0);
  co_await all.warm_up();
  EXPECT_EQ(all.gpus.open().openings, 2U);
}

PEER_TEST(ThousandsOfOperationsLeakNothing) {
  co_await all.warm_up();
  for (int i = 0; i < 100; ++i) co_await all.transfer(1 + 37 * static_cast<std::size_t>(i), 2);
  const auto before = all.gpus.open();
  for (int i = 0; i < 3000; ++i) co_await all.transfer(64, 2);
  EXPECT_EQ(all.gpus.open(), before);
}

}  // namespace
}  // namespace tandem::test
