#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <tandem/error.hpp>

namespace tandem {
namespace {

TEST(error, names_rank_peer_and_advice) {
  error_context c;
  c.rank = 1;
  c.peer = 2;
  c.rail = "tcp 127.0.0.1:5";
  c.phase = "recv";
  c.bytes_done = 10;
  c.bytes_total = 100;
  c.detail = "it broke";
  c.advice = "mend it";
  const error e(make_error_code(errc::peer_lost), c);
  EXPECT_STREQ(e.what(),
               "it broke (rank 1, peer rank 2, tcp 127.0.0.1:5, recv, 10 of 100 bytes); mend it");
  EXPECT_EQ(e.code(), errc::peer_lost);
  EXPECT_EQ(e.context().peer, 2);
}

TEST(error, omits_unknown_fields) {
  EXPECT_STREQ(error(make_error_code(errc::peer_lost)).what(), "the peer is gone");
  EXPECT_STREQ(error(errc::bad_input, "no file").what(), "no file");
  EXPECT_STREQ(error(errc::bad_input, "no file", "make one").what(), "no file; make one");
  error_context some;
  some.rank = 0;
  some.bytes_done = 0;
  EXPECT_STREQ(error(make_error_code(errc::timed_out), some).what(),
               "the deadline passed (rank 0, 0 bytes)");
}

TEST(error, every_code_has_its_own_text) {
  std::set<std::string> words;
  for (int value = 1; value <= static_cast<int>(errc::device_failed); ++value) {
    const error_code code(value, category());
    EXPECT_NE(code.message(), "unknown error") << value;
    EXPECT_TRUE(words.insert(code.message()).second) << code.message();
  }
  EXPECT_EQ(error_code(999, category()).message(), "unknown error");
  EXPECT_STREQ(category().name(), "tandem");
}

TEST(error, codes_are_conditions_for_programs) {
  const error_code code = errc::timed_out;
  EXPECT_TRUE(code == errc::timed_out);
  EXPECT_TRUE(code != errc::peer_lost);
  EXPECT_TRUE(static_cast<bool>(code));
}

TEST(error, outer_context_fills_gaps_only) {
  error_context inner;
  inner.peer = 3;
  inner.detail = "inner";
  error_context outer;
  outer.rank = 1;
  outer.peer = 9;
  outer.phase = "all_reduce";
  outer.bytes_done = 5;
  outer.detail = "outer";
  outer.advice = "advice";
  const error e = with_context(error(make_error_code(errc::peer_lost), inner), outer);
  EXPECT_STREQ(e.what(), "inner (rank 1, peer rank 3, all_reduce, 5 bytes); advice");
  EXPECT_EQ(e.code(), errc::peer_lost);
}

TEST(error, any_exception_is_described) {
  EXPECT_EQ(describe(nullptr), "no error");
  EXPECT_EQ(describe(std::make_exception_ptr(error(errc::bad_input, "ours"))), "ours");
  EXPECT_EQ(describe(std::make_exception_ptr(std::runtime_error("std"))), "std");
  EXPECT_EQ(describe(std::make_exception_ptr(7)), "an exception that is not a std::exception");
  const error_code foreign = make_error_code(boost::system::errc::timed_out);
  EXPECT_FALSE(describe(std::make_exception_ptr(boost::system::system_error(foreign))).empty());
}

}  // namespace
}  // namespace tandem
