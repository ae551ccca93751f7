#include <gtest/gtest.h>

#include <string>
#include <tandem/log.hpp>
#include <vector>

namespace tandem {
namespace {

/// Restores the previous sink, at the level of the tests' own sink.
class own_sink {
 public:
  explicit own_sink(log_level min_level)
      : old_(set_log_sink(
            [this](const log_record& r) {
              lines.push_back(std::string(name(r.level)) + " " + std::string(r.component) + ": " +
                              std::string(r.text));
            },
            min_level)) {}
  ~own_sink() { set_log_sink(old_, log_level::warning); }
  own_sink(const own_sink&) = delete;
  own_sink& operator=(const own_sink&) = delete;
  std::vector<std::string> lines;

 private:
  log_sink old_;
};

TEST(log, filters_by_level) {
  own_sink sink(log_level::info);
  EXPECT_FALSE(log_enabled(log_level::debug));
  EXPECT_TRUE(log_enabled(log_level::info));
  log(log_level::debug, "tcp", "too fine");
  log(log_level::info, "tcp", "connected");
  log(log_level::error, "rendezvous", "lost");
  EXPECT_EQ(sink.lines,
            (std::vector<std::string>{"info tcp: connected", "error rendezvous: lost"}));
}

TEST(log, is_discarded_without_sink) {
  own_sink outer(log_level::debug);
  const log_sink mine = set_log_sink({});
  EXPECT_FALSE(log_enabled(log_level::error));
  log(log_level::error, "tcp", "unheard");
  EXPECT_TRUE(outer.lines.empty());
  EXPECT_FALSE(set_log_sink(mine, log_level::debug)) << "there was none";
  log(log_level::debug, "tcp", "kept");
  EXPECT_EQ(outer.lines.size(), 1u);
}

TEST(log, sink_may_log_and_replace_itself) {
  own_sink outer(log_level::info);
  int calls = 0;
  const log_sink before = set_log_sink([&](const log_record& r) {
    ++calls;
    if (r.text == "first") log(log_level::info, "x", "second");
    if (r.text == "second") set_log_sink({});
  });
  log(log_level::info, "x", "first");
  log(log_level::info, "x", "third");
  EXPECT_EQ(calls, 2);
  set_log_sink(before);
}

}  // namespace
}  // namespace tandem
