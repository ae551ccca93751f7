#pragma once

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <tandem/channels.hpp>

#include "devices/link.hpp"
#include "support/channel_case.hpp"
#include "support/device_views.hpp"

namespace tandem::test {

/// Two ends, each on its GPU, which treat each other as another process, and memory of each.
class peers {
 public:
  peers(const asio::any_io_executor& executor, const cuda_double::options& as,
        const settings& options)
      : gpus(gpus_of_this_test(as)) {
    auto [first, second] = local::make_pair(executor, executor, options);
    below = first.get();
    from = make_end(std::move(first), 0, options);
    to = make_end(std::move(second), 1, options);
  }

  /// The first message of an allocation may be forwarded; later ones are not.
  awaitable<void> warm_up() {
    const std::size_t opened = gpus.calls("cuIpcOpenMemHandle");
    for (int i = 0; i < 3; ++i) {
      co_await transfer(100, 1);
      co_await turns(20);
    }
    EXPECT_GT(gpus.calls("cuIpcOpenMemHandle"), opened);
  }

  /// From here on the GPUs make progress only step by step; earlier work completes first.
  awaitable<void> by_hand() {
    const auto is_quiet = [this] { return gpus.queued() == 0; };
    co_await until(is_quiet, "the end of what was queued");
    gpus.manual(true);
  }

  /// From here on long messages are written by their sender.
  awaitable<void> warm_up_both() {
    for (int i = 0; i < 3; ++i) {
      co_await transfer(20'001, 1);
      co_await turns(20);
    }
  }

  awaitable<void> transfer(std::size_t bytes, std::uint64_t seed) {
    write(text, bytes, seed);
    background receiver(to->get_executor(), to->recv(0, into.view().part(0, bytes)));
    co_await from->send(0, const_view(text.view()).part(0, bytes));
    const std::size_t came = co_await receiver.result();
    EXPECT_EQ(came, bytes);
    expect_pattern(gpus, into, bytes, seed);
  }
  void write(const buffer& where, std::size_t bytes, std::uint64_t seed) {
    write_pattern(gpus, where, bytes, seed);
  }
  std::span<const std::byte> read(const buffer& where, std::size_t bytes) {
    if (bytes == 0) return {};
    return {gpus.host(where.data(), bytes), bytes};
  }

  cuda_double& gpus;
  channel* below = nullptr;  // carries the frames of `from`
  std::unique_ptr<channel> from, to;
  buffer text{1 << 20, memory_kind::cuda, 0};
  buffer into{1 << 20, memory_kind::cuda, 1};

 private:
  static std::unique_ptr<channel> make_end(std::unique_ptr<channel> inner, int end,
                                           const settings& options) {
    devices::process_location where = devices::process_location::here();
    where.process[15] = static_cast<std::byte>(end);
    const auto by = std::make_shared<devices::copiers>(inner->get_executor());
    return devices::make_channel(std::move(inner), by, options, {}, where);
  }
};

using copying_body = awaitable<void> (*)(peers& all);

inline awaitable<void> with_peers(copying_body run, cuda_double::options as = {},
                                  settings options = small_settings()) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  peers all(executor, as, options);
  co_await run(all);
  all.gpus.manual(false);
}

inline awaitable<void> until_queued(peers& all) {
  const auto is_queued = [&all] { return all.gpus.queued() > 0; };
  co_await until(is_queued, "work of a GPU");
}

/// A message whose first copy is queued, while the GPUs are driven step by step.
struct held_message {
  explicit held_message(peers& all, std::size_t bytes = 1 << 20)
      : receiver(all.to->get_executor(), all.to->recv(0, all.into.view())),
        sender(all.from->get_executor(),
               all.from->send(0, const_view(all.text.view()).part(0, bytes))) {}
  background receiver, sender;
};

inline awaitable<std::optional<error>> run_until_over(background& part, peers& all) {
  const auto is_over = [&part, &all] {
    all.gpus.run_all();
    return part.is_over();
  };
  co_await until(is_over, "an operation");
  const std::optional<error> failure = co_await part.failure();
  co_return failure;
}

/// PEER_TEST(name) { body of a coroutine with `all` }
#define PEER_TEST(name)                                     \
  static awaitable<void> name##_body(peers&);               \
  TEST(PeerCopies, name) {                                  \
    gpus_of_this_test();                                    \
    run_test(with_peers(name##_body), drive::by_asio, 60s); \
  }                                                         \
  static awaitable<void> name##_body(peers& all)

}  // namespace tandem::test
