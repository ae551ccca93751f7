#include "support/expected_log.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <tandem/log.hpp>
#include <vector>

namespace tandem::test {
namespace {

struct expectation {
  std::string words;
  int came = 0;
};

std::mutex mutex;
std::vector<expectation> expected;
std::vector<std::string> unexpected;

void on_record(const log_record& record) {
  const std::lock_guard lock(mutex);
  for (expectation& e : expected) {
    if (record.text.find(e.words) == std::string_view::npos) continue;
    ++e.came;
    return;
  }
  unexpected.emplace_back(record.text);
}

class watch final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    const std::lock_guard lock(mutex);
    expected.clear();
    unexpected.clear();
    set_log_sink(on_record, log_level::warning);
  }
  void OnTestEnd(const testing::TestInfo&) override {
    set_log_sink({});
    const std::lock_guard lock(mutex);
    for (const std::string& text : unexpected) ADD_FAILURE() << "unexpected in the log: " << text;
    for (const expectation& e : expected) {
      EXPECT_GT(e.came, 0) << "expected in the log, but missing: " << e.words;
    }
  }
};

[[maybe_unused]] const bool installed = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new watch);  // owned by GoogleTest
  return true;
}();

}  // namespace

void expect_log(const std::string& words) {
  const std::lock_guard lock(mutex);
  expected.push_back({words});
}

}  // namespace tandem::test
