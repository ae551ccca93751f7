// The sink is replaced while others log.

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
  std::atomic<int> heard{0}, garbled{0};
  std::vector<std::thread> talkers;
  for (int i = 0; i < 3; ++i) {
    talkers.emplace_back([&stop] {
      while (!stop) {
        if (log_enabled(log_level::info)) log(log_level::info, "test", "a line");
      }
    });
  }
  while (heard < 1000) {
    set_log_sink([&](const log_record& r) { ++(r.text == "a line" ? heard : garbled); });
    set_log_sink({});
    set_log_sink([&heard](const log_record&) { ++heard; }, log_level::debug);
  }
  stop = true;
  for (std::thread& talker : talkers) talker.join();
  set_log_sink(before, log_level::warning);
  EXPECT_EQ(garbled, 0);
}

}  // namespace
}  // namespace tandem
