#include "rendezvous/store_keys.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/text.hpp"

namespace {

using tandem::test::contains_text;
using namespace tandem::rendezvous;
using std::chrono::milliseconds;
using tandem::errc;

const store_keys::time_point opening(milliseconds(1'000'000));

/// The answers of one kind to one connection.
template <class Reply>
std::vector<Reply> to(const std::vector<store_keys::answer>& all, store_keys::connection_id id) {
  std::vector<Reply> found;
  for (const store_keys::answer& each : all) {
    const Reply* reply = std::get_if<Reply>(&each.message);
    if (reply != nullptr && each.to == id) found.push_back(*reply);
  }
  return found;
}

TEST(store_keys, get_returns_present_keys_in_order) {
  store_keys keys{key_limits{}};
  keys.received(11, set_request{1, "a", "1"}, opening);
  keys.received(11, set_request{2, "b", std::string("\0\xff", 2)}, opening);
  keys.received(11, set_request{3, "a", "new"}, opening);
  EXPECT_EQ(to<done_reply>(keys.take(), 11).size(), 3u);
  keys.received(12, get_request{9, 1'000, {"b", "a", "b"}}, opening);
  const auto values = to<values_reply>(keys.take(), 12);
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(values[0].id, 9u);
  EXPECT_EQ(values[0].values,
            (std::vector<std::string>{std::string("\0\xff", 2), "new", std::string("\0\xff", 2)}));
  keys.received(12, get_request{10, 0, {}}, opening);
  EXPECT_EQ(to<values_reply>(keys.take(), 12).size(), 1u);
}

TEST(store_keys, get_waits_for_last_key) {
  store_keys keys{key_limits{}};
  keys.received(11, get_request{1, 1'000, {"a", "b", "a"}}, opening);
  keys.received(12, get_request{2, 2'000, {"b"}}, opening);
  EXPECT_TRUE(keys.take().empty());
  EXPECT_EQ(keys.next_deadline(), opening + milliseconds(1'000));
  keys.received(10, set_request{1, "b", "B"}, opening);
  auto out = keys.take();
  EXPECT_EQ(to<values_reply>(out, 12).size(), 1u);
  EXPECT_TRUE(to<values_reply>(out, 11).empty());
  keys.received(10, set_request{2, "a", "A"}, opening);
  out = keys.take();
  ASSERT_EQ(to<values_reply>(out, 11).size(), 1u);
  EXPECT_EQ(to<values_reply>(out, 11)[0].values, (std::vector<std::string>{"A", "B", "A"}));
  EXPECT_FALSE(keys.next_deadline());
}

TEST(store_keys, get_timeout_names_missing_keys) {
  store_keys keys{key_limits{}};
  keys.received(10, set_request{1, "here", ""}, opening);
  keys.received(11, get_request{5, 250, {"x\n", "here", "y"}}, opening);
  keys.take();
  keys.tick(opening + milliseconds(250));
  const auto failed = to<failed_reply>(keys.take(), 11);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].id, 5u);
  EXPECT_EQ(failed[0].reason.code(), errc::timed_out);
  EXPECT_TRUE(contains_text(failed[0].reason.what(),
                            "keys 'x.', 'y' missing in rank 0's store: not set within 0.25 s"));
  keys.received(11, get_request{6, 0, {"z"}}, opening);
  EXPECT_EQ(to<failed_reply>(keys.take(), 11).size(), 1u);
  EXPECT_FALSE(keys.next_deadline());
}

TEST(store_keys, add_counts_and_refuses_overflow) {
  store_keys keys{key_limits{}};
  keys.received(11, add_request{1, "n", 5}, opening);
  keys.received(12, add_request{2, "n", -7}, opening);
  auto out = keys.take();
  EXPECT_EQ(to<number_reply>(out, 11).at(0).value, 5);
  EXPECT_EQ(to<number_reply>(out, 12).at(0).value, -2);
  keys.received(11, add_request{3, "n", std::numeric_limits<std::int64_t>::min()}, opening);
  const auto failed = to<failed_reply>(keys.take(), 11);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].reason.code(), errc::limit_exceeded);
  keys.received(11, add_request{4, "n", 0}, opening);
  EXPECT_EQ(to<number_reply>(keys.take(), 11).at(0).value, -2);
}

TEST(store_keys, limits_refuse_the_request_and_change_nothing) {
  store_keys keys{key_limits{
      .keys = 2, .key_bytes = 4, .total_bytes = 20, .reply_bytes = 30, .waits_per_connection = 1}};
  const auto refused = [&](store_request request) {
    keys.received(11, std::move(request), opening);
    const auto out = keys.take();
    const auto failed = to<failed_reply>(out, 11);
    return failed.size() == 1 && failed[0].reason.code() == errc::limit_exceeded;
  };
  EXPECT_TRUE(refused(set_request{1, "", "v"}));
  EXPECT_TRUE(refused(set_request{1, "12345", "v"}));
  EXPECT_TRUE(refused(set_request{1, "k", std::string(20, 'x')}));
  EXPECT_FALSE(refused(set_request{1, "k", std::string(9, 'x')}));
  EXPECT_FALSE(refused(add_request{1, "n", 1}));
  EXPECT_TRUE(refused(set_request{1, "m", ""}));
  EXPECT_TRUE(refused(add_request{1, "m", 1}));
  EXPECT_TRUE(refused(set_request{1, "k", std::string(12, 'y')}));
  EXPECT_FALSE(refused(get_request{1, 0, {"k"}}));
  EXPECT_TRUE(refused(get_request{1, 0, {"k", "k"}}));
  EXPECT_FALSE(refused(get_request{1, 10, {"no"}}));
  EXPECT_TRUE(refused(get_request{1, 10, {"no"}}));
  keys.received(11, get_request{2, 10, {"k"}}, opening);
  EXPECT_EQ(to<values_reply>(keys.take(), 11).at(0).values.at(0), std::string(9, 'x'));
}

TEST(store_keys, closed_connection_has_no_pending_requests) {
  store_keys keys{key_limits{}};
  keys.received(11, get_request{1, 1'000, {"a", "b"}}, opening);
  keys.received(12, get_request{1, 2'000, {"a"}}, opening);
  keys.forget(11);
  EXPECT_EQ(keys.next_deadline(), opening + milliseconds(2'000));
  keys.received(10, set_request{1, "a", "A"}, opening);
  const auto out = keys.take();
  EXPECT_EQ(out.size(), 2u);
  EXPECT_EQ(to<values_reply>(out, 12).size(), 1u);
}

}  // namespace
