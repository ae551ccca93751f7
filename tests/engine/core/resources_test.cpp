#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <tandem/detail/descriptor_budget.hpp>
#include <tandem/detail/resources.hpp>
#include <thread>
#include <vector>

namespace tandem::detail {
namespace {

descriptor_usage usage(std::uint64_t open, std::uint64_t soft, std::uint64_t hard) {
  return {{soft, hard}, open};
}

TEST(DescriptorBudget, KeepsSufficientLimit) {
  const auto made = descriptor_budget::of({"rank 0", 100, 200}, usage(20, 1024, 4096));
  EXPECT_TRUE(made.is_enough);
  EXPECT_EQ(made.raised_soft, 0u);
}

TEST(DescriptorBudget, RaisesSoftLimitAsNeeded) {
  const auto made = descriptor_budget::of({"tandem run", 1210, 1210}, usage(10, 1024, 20000));
  EXPECT_TRUE(made.is_enough);
  EXPECT_EQ(made.raised_soft, 1220 + descriptor_need::spare);
}

TEST(DescriptorBudget, RaisesToHardLimitForOptionalNeeds) {
  const auto made = descriptor_budget::of({"rank 0", 30, 90}, usage(10, 32, 64));
  EXPECT_TRUE(made.is_enough);
  EXPECT_EQ(made.raised_soft, 64u);
}

TEST(DescriptorBudget, RefusesWhenHardLimitIsTooLow) {
  EXPECT_FALSE(descriptor_budget::of({"rank 0", 60, 90}, usage(10, 64, 64)).is_enough);
  EXPECT_TRUE(descriptor_budget::of({"rank 0", 50, 90}, usage(10, 64, 64)).is_enough);
}

TEST(DescriptorBudget, HandlesUnlimited) {
  const auto made = descriptor_budget::of({"rank 0", 5000, 9000}, usage(10, 1024, unlimited));
  EXPECT_TRUE(made.is_enough);
  EXPECT_EQ(made.raised_soft, 9010 + descriptor_need::spare);
  EXPECT_EQ(
      descriptor_budget::of({"rank 0", 5000, 9000}, usage(10, unlimited, unlimited)).raised_soft,
      0u);
}

TEST(DescriptorBudget, ErrorSaysHowManyAreNeededAndWhichLimitToRaise) {
  const error why = too_few_descriptors({"rank 0 of 32 over shm", 32, 90}, usage(40, 64, 64));
  EXPECT_EQ(why.code(), errc::limit_exceeded);
  EXPECT_STREQ(why.what(),
               "rank 0 of 32 over shm needs 36 file descriptors, 76 in all with the 40 that this "
               "process has open, and may have 64 (RLIMIT_NOFILE: soft limit 64, hard limit 64); "
               "raise the hard limit to at least 76: ulimit -n 76 as root, nofile in "
               "/etc/security/limits.conf and a new login, LimitNOFILE= of a systemd unit, docker "
               "run --ulimit nofile=76");
}

TEST(Resources, ErrnoIsInterpretedByResource) {
  EXPECT_TRUE(is_exhausted(EAGAIN, resource::process));
  EXPECT_FALSE(is_exhausted(EAGAIN, resource::descriptor));
  EXPECT_TRUE(is_exhausted(ENOSPC, resource::file));
  EXPECT_TRUE(is_exhausted(ENOSPC, resource::memory));
  EXPECT_FALSE(is_exhausted(ENOSPC, resource::descriptor));
  EXPECT_TRUE(is_exhausted(EMFILE, resource::file));
  EXPECT_FALSE(is_exhausted(ECONNREFUSED, resource::descriptor));
}

std::string words(int code, resource wanted, const resource_usage& now) {
  const error failure = describe_exhausted(code, wanted, "no x", now);
  EXPECT_EQ(failure.code(), errc::limit_exceeded);
  return failure.what();
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Resources, TextNamesTheExhaustedLimit) {
  resource_usage now;
  now.descriptors = {64, 4096};
  now.open_descriptors = 64;
  std::string failure = words(EMFILE, resource::descriptor, now);
  EXPECT_TRUE(holds(failure, "RLIMIT_NOFILE: 64 of 64 in use, hard limit 4096")) << failure;
  EXPECT_TRUE(holds(failure, "raise the soft limit: ulimit -n")) << failure;
  EXPECT_TRUE(holds(words(ETOOMANYREFS, resource::descriptor, now), "in flight"));
  EXPECT_TRUE(holds(words(ENFILE, resource::descriptor, now), "fs.file-max"));
  now.processes = {100, 200};
  EXPECT_TRUE(holds(words(EAGAIN, resource::process, now), "RLIMIT_NPROC: 100, hard limit 200"));
  now.cgroup_pids = 32;
  now.cgroup_pids_max = 32;
  EXPECT_TRUE(holds(words(EAGAIN, resource::process, now), "pids.max: 32 of 32"));
  now.file_bytes = {65536, unlimited};
  EXPECT_TRUE(holds(words(EFBIG, resource::memory, now), "RLIMIT_FSIZE: 65536 bytes"));
  EXPECT_TRUE(holds(words(ENOSPC, resource::file, now), "file system is full"));
  EXPECT_TRUE(holds(words(EDQUOT, resource::file, now), "quota"));
  now.cgroup_memory_max = std::uint64_t{64} << 20;
  EXPECT_TRUE(holds(words(ENOMEM, resource::memory, now), "memory.max of the cgroup: 64M"));
  now.address_space = {1 << 20, unlimited};
  EXPECT_TRUE(holds(words(ENOMEM, resource::memory, now), "RLIMIT_AS: 1048576 bytes"));
}

TEST(Resources, ThreadsThatCannotStartAreNamed) {
  try {
    start_threads("no thread for the test", []() -> int {
      throw std::system_error(EAGAIN, std::generic_category(), "thread");
    });
    FAIL() << "nothing was thrown";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::limit_exceeded);
    EXPECT_TRUE(holds(e.what(), "no thread for the test: ")) << e.what();
    EXPECT_TRUE(holds(e.what(), "processes and threads")) << e.what();
  }
}

/// In a child process, because limits are per process.
template <class Work>
void in_child(Work work) {
  EXPECT_EXIT((work(), ::_exit(testing::Test::HasFailure() ? 1 : 0)), testing::ExitedWithCode(0),
              "");
}

void set_soft_limit(rlim_t soft) {
  rlimit now{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  now.rlim_cur = soft;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
}

TEST(Resources, UsageIsReportedWithoutFreeDescriptors) {
  in_child([] {
    set_soft_limit(48);
    while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
    }
    const error failure = exhausted(EMFILE, resource::descriptor, "no socket");
    EXPECT_TRUE(holds(failure.what(), "RLIMIT_NOFILE: 48 of 48 in use")) << failure.what();
    const boost::system::system_error bare(EMFILE, boost::system::system_category(), "epoll");
    const std::optional<error> found = find_exhausted(bare);
    EXPECT_TRUE(found && holds(found->what(), "epoll: this process is out of file descriptors"));
    EXPECT_TRUE(holds(describe(std::make_exception_ptr(bare)), "RLIMIT_NOFILE"));
  });
}

TEST(Resources, ReservationRaisesSoftLimitOnly) {
  in_child([] {
    set_soft_limit(48);
    const limit before = read_descriptor_usage().max;
    if (before.hard < 200) return;
    reserve_descriptors({"the test", 10, 10});
    EXPECT_EQ(read_descriptor_usage().max.soft, 48u);
    reserve_descriptors({"the test", 100, 100});
    const descriptor_usage after = read_descriptor_usage();
    EXPECT_EQ(after.max.soft, after.open + 100 + descriptor_need::spare);
    EXPECT_EQ(after.max.hard, before.hard);
    EXPECT_THROW(reserve_descriptors({"the test", unlimited / 2, 0}), error);
  });
}

}  // namespace
}  // namespace tandem::detail
