#include "transports/rails/verbs/memlock.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>

#include "support/text.hpp"

namespace tandem::verbs {
namespace {

using test::contains_text;
constexpr std::uint64_t mega = 1024 * 1024;

/// The error for a request of this size under these limits.
error asked(std::uint64_t wanted, std::uint64_t before, const memlock_limit& limit,
            int failure = ENOMEM) {
  return registration_error("rxe0", wanted, before, failure, limit);
}

TEST(Memlock, NamesLimitAndHowToRaiseIt) {
  const error refused = asked(64 * mega, 0, {8 * mega, 8 * mega});
  EXPECT_EQ(refused.code(), errc::limit_exceeded);
  EXPECT_EQ(refused.context().detail,
            "rxe0: 64M of memory cannot be registered: Cannot allocate memory; the limit of locked "
            "memory (RLIMIT_MEMLOCK) is 8M, it should be at least 66M");
  EXPECT_TRUE(
      contains_text(refused.context().advice, "ulimit -l 67584 (as root: the hard limit is 8M)"));
  for (const std::string_view advice_text :
       {"/etc/security/limits.d", "LimitMEMLOCK=infinity", "--ulimit memlock=-1"}) {
    EXPECT_TRUE(contains_text(refused.context().advice, advice_text)) << advice_text;
  }
  EXPECT_EQ(std::string(refused.what()).find('\n'), std::string::npos);
}

TEST(Memlock, CountsWhatIsRegisteredAlready) {
  const error refused = asked(4 * mega, 6 * mega, {8 * mega, unlimited}, EAGAIN);
  EXPECT_TRUE(
      contains_text(refused.what(), "6M are registered already, it should be at least 12M"));
  EXPECT_TRUE(contains_text(refused.what(), "ulimit -l 12288,"));
}

TEST(Memlock, IsNotBlamedWhereItIsEnough) {
  for (const std::uint64_t limit : {10 * mega, unlimited}) {
    const error refused = asked(4 * mega, 6 * mega, {limit, limit});
    EXPECT_TRUE(contains_text(refused.what(), "which is enough")) << refused.what();
    EXPECT_TRUE(contains_text(refused.what(), "max_mr")) << refused.what();
    EXPECT_FALSE(contains_text(refused.what(), "ulimit -l")) << refused.what();
  }
}

TEST(Memlock, IsNotBlamedForOtherFailures) {
  const error refused = asked(mega, 0, {0, 0}, EFAULT);
  EXPECT_EQ(refused.code(), errc::unsupported_memory);
  EXPECT_TRUE(contains_text(refused.what(), "Bad address"));
  EXPECT_FALSE(contains_text(refused.what(), "RLIMIT_MEMLOCK"));
}

TEST(Memlock, SuggestsUnlimitedForHugeRequests) {
  EXPECT_TRUE(contains_text(asked(unlimited, mega, {mega, mega}).what(), "ulimit -l unlimited"));
}

TEST(Memlock, IsReadFromTheKernel) {
  rlimit kernel{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &kernel), 0);
  const memlock_limit found = read_memlock();
  EXPECT_EQ(found.soft_bytes, kernel.rlim_cur);
  EXPECT_EQ(found.hard_bytes, kernel.rlim_max);
}

}  // namespace
}  // namespace tandem::verbs
