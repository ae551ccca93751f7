#include "devices/peer_staging.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "doubles/cuda/double.hpp"
#include "engine/accelerator/accelerator_rig.hpp"
#include "support/text.hpp"

namespace tandem::devices {
namespace {

using test::cuda_at;
using test::cuda_double;

constexpr std::size_t capacity_bytes = 65536;
constexpr std::uint32_t id = staging_id(memory_kind::cuda);

class peer_staging_test : public testing::Test {
 protected:
  /// The answer to a description of `where`.
  std::string answer_to(const shared_pages::location& where) {
    peer_staging mine(where.bytes);
    EXPECT_TRUE(mine.describe(describe_staging(id, where), why_)) << why_;
    imports::answer answer;
    EXPECT_TRUE(mine.next(cuda_at(0), answer));
    EXPECT_EQ(answer.id, id);
    EXPECT_FALSE(mine.next(cuda_at(0), answer)) << "answered once";
    return answer.why;
  }
  /// A descriptor of this process as a peer might describe it.
  static shared_pages::location location_of(int descriptor, std::size_t bytes = capacity_bytes) {
    struct stat about {};
    ::fstat(descriptor, &about);
    return {static_cast<std::uint32_t>(::getpid()), static_cast<std::uint32_t>(descriptor),
            about.st_ino, bytes};
  }

  cuda_double world_;
  std::string why_;
};

TEST_F(peer_staging_test, both_ends_see_the_same_bytes) {
  const shared_pages pages("tandem-test", capacity_bytes);
  std::memset(pages.data() + 4096, 7, 100);
  peer_staging mine(capacity_bytes);
  ASSERT_TRUE(mine.describe(describe_staging(id, pages.where()), why_)) << why_;
  imports::answer answer;
  ASSERT_TRUE(mine.next(cuda_at(0), answer));
  EXPECT_EQ(answer.why, "");
  const auto found = mine.find({id, 4096}, 100, cuda_at(1), why_);
  ASSERT_TRUE(found) << why_;
  EXPECT_NE(found->host_address, pages.data() + 4096) << "mapped once more";
  EXPECT_EQ(std::memcmp(found->host_address, pages.data() + 4096, 100), 0);
  EXPECT_EQ(world_.host(static_cast<const std::byte*>(found->from), 100), found->host_address);
  EXPECT_EQ(world_.open().registrations, 1U) << "once for all devices of a vendor";
}

TEST_F(peer_staging_test, stays_mapped_after_owner_is_destroyed) {
  auto pages = std::make_unique<shared_pages>("tandem-test", capacity_bytes);
  pages->data()[5] = std::byte{9};
  peer_staging mine(capacity_bytes);
  ASSERT_TRUE(mine.describe(describe_staging(id, pages->where()), why_));
  imports::answer answer;
  ASSERT_TRUE(mine.next(cuda_at(0), answer));
  pages.reset();
  const auto found = mine.find({id, 5}, 1, cuda_at(0), why_);
  ASSERT_TRUE(found);
  EXPECT_EQ(*found->host_address, std::byte{9});
}

TEST_F(peer_staging_test, invalid_descriptions_are_refused) {
  const shared_pages pages("tandem-test", capacity_bytes);
  shared_allocation good = describe_staging(id, pages.where());
  peer_staging mine(capacity_bytes);
  shared_allocation bad = good;
  bad.kind = memory_kind::cuda;
  EXPECT_FALSE(mine.describe(bad, why_));
  bad = good;
  bad.bytes = capacity_bytes * 1024;
  EXPECT_FALSE(mine.describe(bad, why_));
  EXPECT_TRUE(test::contains_text(why_, "67108864 bytes; expected 65536")) << why_;
  EXPECT_TRUE(mine.describe(good, why_));
  EXPECT_FALSE(mine.describe(good, why_)) << "twice";
}

TEST_F(peer_staging_test, out_of_bounds_references_are_refused) {
  const shared_pages pages("tandem-test", capacity_bytes);
  peer_staging mine(capacity_bytes);
  EXPECT_FALSE(mine.find({id, 0}, 1, cuda_at(0), why_)) << "not described";
  ASSERT_TRUE(mine.describe(describe_staging(id, pages.where()), why_));
  EXPECT_TRUE(mine.find({id, capacity_bytes - 1}, 1, cuda_at(0), why_));
  EXPECT_FALSE(mine.find({id, capacity_bytes - 1}, 2, cuda_at(0), why_));
  EXPECT_FALSE(mine.find({id, ~std::uint64_t{0}}, 2, cuda_at(0), why_));
  EXPECT_FALSE(mine.find({id + 1, 0}, 1, cuda_at(0), why_)) << "of another vendor";
}

TEST_F(peer_staging_test, descriptor_is_verified_before_mapping) {
  const shared_pages pages("tandem-test", capacity_bytes);
  shared_pages::location where = pages.where();
  where.inode += 1;
  EXPECT_TRUE(test::contains_text(answer_to(where), "not that shared memory"));
  where = pages.where();
  where.bytes /= 2;
  EXPECT_TRUE(test::contains_text(answer_to(where), "not that shared memory"));
  where = pages.where();
  where.descriptor = 1'000'000;
  EXPECT_NE(answer_to(where), "");
  where = pages.where();
  where.process = 0x7fff'ffff;
  EXPECT_NE(answer_to(where), "");
}

TEST_F(peer_staging_test, memory_that_may_shrink_is_refused) {
  const int open_ended = ::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(open_ended, capacity_bytes), 0);
  EXPECT_TRUE(test::contains_text(answer_to(location_of(open_ended)), "not that shared memory"));
  ::close(open_ended);
}

TEST_F(peer_staging_test, pipes_and_devices_are_not_opened) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  EXPECT_TRUE(test::contains_text(answer_to(location_of(ends[0])), "not that shared memory"));
  const int zero = ::open("/dev/zero", O_RDWR | O_CLOEXEC);
  EXPECT_TRUE(test::contains_text(answer_to(location_of(zero)), "not that shared memory"));
  for (const int each : {ends[0], ends[1], zero}) ::close(each);
}

TEST_F(peer_staging_test, pinning_failure_is_explained) {
  const shared_pages pages("tandem-test", capacity_bytes);
  world_.fail("cuMemHostRegister", 1, 801);
  EXPECT_TRUE(test::contains_text(answer_to(pages.where()), "cuMemHostRegister"));
}

}  // namespace
}  // namespace tandem::devices
