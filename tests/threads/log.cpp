// The sink is replaced while other threads log.

#include <gtest/gtest.h>

#include <atomic>
#include <tandem/log.hpp>
#include <thread>
#include <vector>

namespace tandem {
namespace {

TEST(threads, log_sink_is_replaced_during_logging) {
  const log_sink before = set_log_sink({});
  std::atomic<bool> stop{false};
  std::atomic<int> received{0}, garbled{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; ++i) {
    writers.emplace_back([&stop] {
      while (!stop) {
        if (log_enabled(log_level::info)) log(log_level::info, "test", "a line");
      }
    });
  }
  while (received < 1000) {
    set_log_sink([&](const log_record& r) { ++(r.text == "a line" ? received : garbled); });
    set_log_sink({});
    set_log_sink([&received](const log_record&) { ++received; }, log_level::debug);
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  set_log_sink(before, log_level::warning);
  EXPECT_EQ(garbled, 0);
}

}  // namespace
}  // namespace tandem
