// Copies of devices step by step: which operations complete only after them, and what a failed copy
// ends.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/channels.hpp>

#include "conformance/pairs.hpp"
#include "devices/link.hpp"
#include "support/channel_case.hpp"
#include "support/device_views.hpp"
#include "support/pending_operation.hpp"

namespace tandem::test {
namespace {

constexpr cu::result some_failure = 999;

std::unique_ptr<channel> forwarding_on(std::unique_ptr<channel> inner, const settings& options) {
  const auto by = std::make_shared<devices::copiers>(inner->get_executor());
  return devices::make_channel(std::move(inner), by, options, {}, devices::unshared_location);
}

awaitable<channel_pair> forwarding_pair(settings options) {
  channel_pair below = co_await pair_over_local(options);
  co_return channel_pair{forwarding_on(std::move(below.first), options),
                         forwarding_on(std::move(below.second), options)};
}

/// Memory of device 0 with `pattern(bytes, seed)`, or with zeroes.
buffer on_device(std::size_t bytes, std::uint64_t seed = 0) {
  buffer made(bytes, memory_kind::cuda, 0);
  if (seed == 0) return made;
  const std::vector<std::byte> text = pattern(bytes, seed);
  std::memcpy(gpus_of_this_test().host(made.data(), bytes), text.data(), bytes);
  return made;
}

std::span<const std::byte> bytes_of(const buffer& on_a_device) {
  return {gpus_of_this_test().host(on_a_device.data(), on_a_device.size()), on_a_device.size()};
}

/// Both ends, and GPUs that make progress only step by step.
using failing_body = awaitable<void> (*)(channel& from, channel& to, cuda_double& gpus);
awaitable<void> by_hand(failing_body run, settings options) {
  cuda_double& gpus = gpus_of_this_test();
  gpus.manual(true);
  channel_pair pair = co_await forwarding_pair(std::move(options));
  co_await run(*pair.first, *pair.second, gpus);
  gpus.manual(false);
}

/// DEVICE_TEST(name) { body of a coroutine with `from`, `to` and `gpus` }
#define DEVICE_TEST(name)                                                                          \
  static awaitable<void> name##_body(channel& from, channel& to, cuda_double& gpus);               \
  TEST(DeviceChannels, name) {                                                                     \
    gpus_of_this_test();                                                                           \
    run_test(by_hand(name##_body, small_settings()));                                              \
  }                                                                                                \
  static awaitable<void> name##_body([[maybe_unused]] channel& from, [[maybe_unused]] channel& to, \
                                     cuda_double& gpus)

awaitable<void> until_queued(cuda_double& gpus) {
  const auto is_queued = [&gpus] { return gpus.queued() > 0; };
  co_await until(is_queued, "work of a GPU");
}

awaitable<std::optional<error>> run_until_over(background& part, cuda_double& gpus) {
  const auto is_over = [&part, &gpus] {
    gpus.run_all();
    return part.is_over();
  };
  co_await until(is_over, "an operation");
  const std::optional<error> failure = co_await part.failure();
  co_return failure;
}

awaitable<void> expect_both_usable(channel& from, channel& to, cuda_double& gpus) {
  gpus.manual(false);
  co_await expect_usable(from, to, 7);
  const buffer there = on_device(3000, 5), here = on_device(3000);
  background sender(from.get_executor(), from.send(8, there.view()));
  co_await to.recv(8, here.view());
  co_await sender.result();
  EXPECT_EQ(first_wrong(bytes_of(here), 5), std::nullopt);
}

DEVICE_TEST(AReceiveCompletesWhenItsViewIsFilled) {
  const buffer into = on_device(100);
  background receiver(to.get_executor(), to.recv(0, into.view()));
  co_await send_pattern(from, 0, 100, 1);
  co_await until_queued(gpus);
  co_await expect_waiting(receiver);
  receiver.cancel();  // too late
  co_await expect_waiting(receiver);
  const auto failure = co_await run_until_over(receiver, gpus);
  EXPECT_FALSE(failure);
  EXPECT_EQ(first_wrong(bytes_of(into), 1), std::nullopt);
}

DEVICE_TEST(ACancelledReceiveCompletesWhenNothingIsCopiedAnyMore) {
  const buffer into = on_device(20'000);
  background receiver(to.get_executor(), to.recv(0, into.view()));
  background sender(from.get_executor(), send_pattern(from, 0, 20'000, 1));
  co_await until_queued(gpus);
  receiver.cancel();
  co_await expect_waiting(receiver);
  const auto failure = co_await run_until_over(receiver, gpus);
  expect_aborted(failure);
  const std::vector<std::byte> kept(bytes_of(into).begin(), bytes_of(into).end());
  EXPECT_EQ(first_wrong(std::span(kept).first(1024), 1), std::nullopt) << "nothing was copied";
  const auto of_send = co_await run_until_over(sender, gpus);
  EXPECT_FALSE(of_send);
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), bytes_of(into).begin()));
  co_await expect_both_usable(from, to, gpus);
}

/// Longer than what is staged at once: what has arrived as a whole by the deadline is a success.
DEVICE_TEST(ALateReceiveCompletesWhenNothingIsCopiedAnyMore) {
  const buffer into = on_device(40'000);
  pending_operation late(to, operation::kind::recv, 0, into.view());
  late.deadline = std::chrono::steady_clock::now() + 2s;
  late.start();
  background sender(from.get_executor(), send_pattern(from, 0, 40'000, 1));
  co_await until_queued(gpus);
  const auto is_over = [&late] { return late.is_over(); };
  co_await until(is_over, "the deadline");
  co_await turns(20);
  EXPECT_EQ(late.completions, 0);
  const auto of_send = co_await run_until_over(sender, gpus);
  EXPECT_FALSE(of_send);
  co_await late.wait();
  EXPECT_EQ(late.completions, 1);
  EXPECT_EQ(late.result, errc::timed_out);
}

DEVICE_TEST(ACancelledSendCompletesWhenNothingIsCopiedAnyMore) {
  const buffer text = on_device(20'000, 1);
  std::vector<std::byte> into(20'000);
  background receiver(to.get_executor(), to.recv(0, into));
  background sender(from.get_executor(), from.send(0, text.view()));
  co_await until_queued(gpus);
  sender.cancel();
  co_await expect_waiting(sender);
  const auto failure = co_await run_until_over(sender, gpus);
  expect_aborted(failure);
  const auto of_recv = co_await run_until_over(receiver, gpus);
  expect_error(of_recv, errc::message_cancelled);
  co_await expect_both_usable(from, to, gpus);
}

DEVICE_TEST(AClosedChannelKeepsViewsUntilNothingIsCopiedAnyMore) {
  const buffer text = on_device(20'000, 1), into = on_device(20'000);
  background receiver(to.get_executor(), to.recv(0, into.view()));
  background sender(from.get_executor(), from.send(0, text.view()));
  co_await until_queued(gpus);
  from.close();
  to.close();
  co_await expect_waiting(sender);
  const auto of_send = co_await run_until_over(sender, gpus);
  expect_error(of_send, errc::channel_closed);
  const auto of_recv = co_await run_until_over(receiver, gpus);
  expect_error(of_recv, errc::channel_closed);
}

DEVICE_TEST(AClosedReceiverKeepsItsViewUntilNothingIsCopiedAnyMore) {
  const buffer into = on_device(20'000);
  background receiver(to.get_executor(), to.recv(0, into.view()));
  background sender(from.get_executor(), send_pattern(from, 0, 20'000, 1));
  co_await until_queued(gpus);
  to.close();
  co_await expect_waiting(receiver);
  const auto of_recv = co_await run_until_over(receiver, gpus);
  expect_error(of_recv, errc::channel_closed);
  const auto of_send = co_await run_until_over(sender, gpus);
  expect_error(of_send, errc::peer_closed);
}

/// The next piece is copied while one is being sent.
DEVICE_TEST(SeveralPiecesAreUnderWayAtOnce) {
  const buffer text = on_device(20'000, 1);
  std::vector<std::byte> into(20'000);
  background receiver(to.get_executor(), to.recv(0, into));
  background sender(from.get_executor(), from.send(0, text.view()));
  co_await until_queued(gpus);
  co_await turns(20);
  const std::size_t before = gpus.seen().copies;
  gpus.run_all();
  EXPECT_EQ(gpus.seen().copies - before, 16u);
  const auto of_send = co_await run_until_over(sender, gpus);
  EXPECT_FALSE(of_send);
  co_await receiver.result();
  EXPECT_EQ(first_wrong(into, 1), std::nullopt);
}

static awaitable<void> fail_a_send(channel& from, channel& to, cuda_double& gpus, std::size_t bytes,
                                   int at_copy) {
  const buffer text = on_device(bytes, 1);
  std::vector<std::byte> into(bytes);
  background receiver(to.get_executor(), to.recv(0, into));
  gpus.fail("copy", at_copy, some_failure);
  background sender(from.get_executor(), from.send(0, text.view()));
  const auto of_send = co_await run_until_over(sender, gpus);
  expect_error(of_send, errc::device_failed, {"cuMemcpy", "send"});
  const auto of_recv = co_await run_until_over(receiver, gpus);
  expect_error(of_recv, errc::message_cancelled);
}

DEVICE_TEST(ASendThatCannotBeReadFailsAtBothEndsAndAlone) {
  co_await fail_a_send(from, to, gpus, 100, 1);   // eager
  co_await fail_a_send(from, to, gpus, 5000, 1);  // the first piece
  co_await fail_a_send(from, to, gpus, 5000, 5);  // the last piece
  co_await fail_a_send(from, to, gpus, 20'000, 9);
  co_await expect_both_usable(from, to, gpus);
}

/// It arrives before its receive is posted.
DEVICE_TEST(AnUnexpectedMessageThatCannotBeReadFailsItsReceive) {
  const buffer text = on_device(100, 1);
  gpus.fail("copy", 1, some_failure);
  const auto of_send = co_await failure_of(from.send(0, text.view()));
  expect_error(of_send, errc::device_failed, {"cuMemcpy"});
  co_await send_pattern(from, 1, 10, 1);
  co_await recv_pattern(to, 1, 10, 1);
  const buffer into = on_device(100);
  const auto of_recv = co_await failure_of(to.recv(0, into.view()));
  expect_error(of_recv, errc::message_cancelled);
  EXPECT_EQ(to.stats().unexpected_bytes, 0u);
  co_await expect_both_usable(from, to, gpus);
}

static awaitable<void> fail_a_receive(channel& from, channel& to, cuda_double& gpus,
                                      std::size_t bytes, int at_copy) {
  const buffer into = on_device(bytes);
  background receiver(to.get_executor(), to.recv(0, into.view()));
  gpus.fail("copy", at_copy, some_failure);
  background sender(from.get_executor(), send_pattern(from, 0, bytes, 1));
  const auto of_recv = co_await run_until_over(receiver, gpus);
  expect_error(of_recv, errc::device_failed, {"cuMemcpy", "recv: message arriving"});
  const auto of_send = co_await run_until_over(sender, gpus);
  EXPECT_FALSE(of_send);
}

DEVICE_TEST(AReceiveThatCannotBeFilledFailsAlone) {
  co_await fail_a_receive(from, to, gpus, 100, 1);
  co_await fail_a_receive(from, to, gpus, 5000, 1);
  co_await fail_a_receive(from, to, gpus, 5000, 5);
  co_await fail_a_receive(from, to, gpus, 20'000, 9);
  co_await expect_both_usable(from, to, gpus);
}

/// The message arrived long before.
DEVICE_TEST(AReceiveOfAnUnexpectedMessageThatCannotBeFilledFailsAlone) {
  co_await send_pattern(from, 0, 100, 1);
  co_await until_unexpected(to, 100);
  const buffer into = on_device(100);
  gpus.fail("copy", 1, some_failure);
  const auto of_recv = co_await failure_of(to.recv(0, into.view()));
  expect_error(of_recv, errc::device_failed, {"cuMemcpy"});
  co_await expect_both_usable(from, to, gpus);
}

DEVICE_TEST(ADeviceThatBreaksFailsItsOperations) {
  const buffer text = on_device(20'000, 1), into = on_device(20'000);
  background receiver(to.get_executor(), to.recv(0, into.view()));
  background sender(from.get_executor(), from.send(0, text.view()));
  co_await until_queued(gpus);
  gpus.break_device(0);
  const auto of_send = co_await run_until_over(sender, gpus);
  expect_error(of_send, errc::device_failed);
  const auto of_recv = co_await run_until_over(receiver, gpus);
  EXPECT_TRUE(of_recv && (of_recv->code() == errc::message_cancelled ||
                          of_recv->code() == errc::device_failed));
  co_await expect_usable(from, to, 7);
}

DEVICE_TEST(AnOperationWithoutPinnedMemoryFailsAlone) {
  const buffer text = on_device(100, 1);
  std::vector<std::byte> into(100);
  background receiver(to.get_executor(), to.recv(0, into));
  gpus.fail("cuMemHostAlloc", 1, cu::out_of_memory);
  const auto of_send = co_await failure_of(from.send(0, text.view()));
  expect_error(of_send, errc::device_failed, {"cuMemHostAlloc"});
  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, errc::message_cancelled);
  co_await expect_both_usable(from, to, gpus);
}

DEVICE_TEST(LimitsListTheLocalDevices) {
  const std::vector<memory_kind> here{memory_kind::host, memory_kind::cuda};
  EXPECT_EQ(from.limits().kinds, here);
  const mutable_view nowhere(&gpus, 10, memory_kind::cuda, 7);
  const auto failure = co_await failure_of(from.send(0, nowhere));
  expect_error(failure, errc::unsupported_memory, {"no device 7 of kind cuda"});
  co_await expect_both_usable(from, to, gpus);
}

/// Staging is allocated once.
DEVICE_TEST(AWarmLinkAllocatesNoDeviceOrPinnedMemory) {
  gpus.manual(false);
  const buffer text = on_device(20'000, 1), into = on_device(20'000);
  std::optional<cuda_double::objects> warm;
  for (int i = 0; i < 10; ++i) {
    background sender(from.get_executor(), from.send(0, text.view()));
    co_await to.recv(0, into.view());
    co_await sender.result();
    const cuda_double::objects open = gpus.open();
    if (i == 3) warm = open;
    if (warm) {
      EXPECT_EQ(open.pinned, 2u);
      EXPECT_EQ(open.allocations, warm->allocations);
    }
  }
  EXPECT_EQ(gpus.calls("cuMemHostAlloc"), 2u);
  EXPECT_EQ(gpus.seen().pageable_copies, 0u);
}

}  // namespace
}  // namespace tandem::test
