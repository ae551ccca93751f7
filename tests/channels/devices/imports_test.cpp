#include "devices/imports.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <tandem/detail/deferred_calls.hpp>
#include <tandem/memory.hpp>
#include <thread>

#include "doubles/cuda/double.hpp"
#include "engine/accelerator/accelerator_rig.hpp"

namespace tandem::devices {
namespace {

using test::cuda_at;
using test::cuda_double;

shared_allocation describe(const buffer& memory, std::uint32_t id) {
  accelerator& of = accelerator_of(memory.view());
  shared_allocation made;
  made.id = id;
  made.uuid = of.facts().uuid;
  made.base = reinterpret_cast<std::uintptr_t>(memory.data());
  made.bytes = memory.size();
  made.handle = of.share(memory.data());
  return made;
}

class imports_test : public testing::Test {
 protected:
  void describe_and_open(imports& into, const shared_allocation& what) {
    ASSERT_TRUE(into.describe(what, why_)) << why_;
    imports::answer answer;
    ASSERT_TRUE(into.next(cuda_at(1), answer));
    EXPECT_EQ(answer.id, what.id);
    EXPECT_EQ(answer.why, "");
  }
  std::size_t openings() const { return world_.open().openings; }

  cuda_double world_;
  std::string why_;
};

TEST_F(imports_test, allocation_is_mapped_once_and_closed_on_retirement) {
  const buffer memory(4096, memory_kind::cuda, 0);
  imports mine(peer_access::mapped);
  describe_and_open(mine, describe(memory, 3));
  EXPECT_EQ(openings(), 1U);
  for (int i = 0; i < 3; ++i) {
    const auto found = mine.find({3, 96}, 4000, cuda_at(1), why_);
    ASSERT_TRUE(found) << why_;
    EXPECT_EQ(world_.host(static_cast<const std::byte*>(found->from)),
              world_.host(memory.data()) + 96);
  }
  EXPECT_EQ(world_.calls("cuIpcOpenMemHandle"), 1U);
  EXPECT_EQ(world_.calls("cuCtxEnablePeerAccess"), 0U) << "which takes a context there";
  EXPECT_TRUE(mine.retire(3, why_));
  EXPECT_EQ(openings(), 0U);
}

TEST_F(imports_test, mapping_in_use_stays_open) {
  const buffer memory(4096, memory_kind::cuda, 0);
  imports mine(peer_access::mapped);
  describe_and_open(mine, describe(memory, 0));
  auto found = mine.find({0, 0}, 1, cuda_at(1), why_);
  mine.retire(0, why_);
  EXPECT_EQ(openings(), 1U);
  found.reset();
  EXPECT_EQ(openings(), 0U);
}

/// The driver's call to close it would wait for the streams, on the thread that they wait for.
TEST_F(imports_test, mapping_is_not_closed_while_streams_wait) {
  detail::deferred_calls& calls = detail::deferred_calls::of_process();
  const buffer memory(4096, memory_kind::cuda, 0);
  imports mine(peer_access::mapped);
  describe_and_open(mine, describe(memory, 0));
  calls.count_streams(+1);
  mine.retire(0, why_);
  EXPECT_EQ(openings(), 1U);
  EXPECT_FALSE(mine.find({0, 0}, 1, cuda_at(1), why_));
  calls.count_streams(-1);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (openings() > 0 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(openings(), 0U);
  describe_and_open(mine, describe(memory, 0));
  EXPECT_EQ(openings(), 1U);
}

TEST_F(imports_test, channels_share_mappings) {
  const buffer memory(4096, memory_kind::cuda, 0);
  imports one(peer_access::mapped), other(peer_access::mapped);
  describe_and_open(one, describe(memory, 0));
  describe_and_open(other, describe(memory, 5));
  EXPECT_EQ(openings(), 1U);
  one.clear();
  EXPECT_EQ(openings(), 1U);
  other.clear();
  EXPECT_EQ(openings(), 0U);
}

TEST_F(imports_test, nothing_is_opened_without_local_device) {
  const buffer memory(4096, memory_kind::cuda, 0);
  imports mine(peer_access::mapped);
  ASSERT_TRUE(mine.describe(describe(memory, 0), why_));
  EXPECT_TRUE(mine.has_unanswered());
  EXPECT_EQ(world_.calls("cuIpcOpenMemHandle"), 0U);
  EXPECT_TRUE(mine.retire(0, why_));
  EXPECT_FALSE(mine.has_unanswered());
}

TEST_F(imports_test, same_process_uses_the_address_directly) {
  const buffer memory(4096, memory_kind::cuda, 0);
  imports mine(peer_access::same_process);
  describe_and_open(mine, describe(memory, 0));
  const auto found = mine.find({0, 8}, 8, cuda_at(1), why_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->from, memory.data() + 8);
  EXPECT_EQ(world_.calls("cuIpcOpenMemHandle"), 0U);
  EXPECT_EQ(world_.calls("cuCtxEnablePeerAccess"), 1U);
}

TEST_F(imports_test, open_failure_is_answered_with_driver_text) {
  const buffer memory(4096, memory_kind::cuda, 0);
  imports mine(peer_access::mapped);
  ASSERT_TRUE(mine.describe(describe(memory, 0), why_));
  world_.fail("cuIpcOpenMemHandle", 1, 201);
  imports::answer answer;
  ASSERT_TRUE(mine.next(cuda_at(1), answer));
  EXPECT_NE(answer.why.find("cuIpcOpenMemHandle on cuda:1"), std::string::npos) << answer.why;
  EXPECT_FALSE(mine.find({0, 0}, 1, cuda_at(1), why_)) << "it was discarded";
  EXPECT_TRUE(mine.retire(0, why_)) << "the owner's message may have crossed the answer";
}

TEST_F(imports_test, references_are_validated) {
  const buffer memory(4096, memory_kind::cuda, 0);
  imports mine(peer_access::mapped);
  describe_and_open(mine, describe(memory, 1));
  EXPECT_FALSE(mine.find({1, 4096}, 1, cuda_at(1), why_));
  EXPECT_FALSE(mine.find({1, 0}, 4097, cuda_at(1), why_));
  EXPECT_FALSE(mine.find({1, ~std::uint64_t{0}}, 2, cuda_at(1), why_));
  EXPECT_FALSE(mine.find({1 | 1 << 16, 0}, 1, cuda_at(1), why_)) << "another generation";
  EXPECT_FALSE(mine.find({2, 0}, 1, cuda_at(1), why_));
  EXPECT_TRUE(mine.find({1, 4096}, 0, cuda_at(1), why_));
  EXPECT_FALSE(mine.describe(describe(memory, 1 | 1 << 16), why_)) << "the slot is taken";
  EXPECT_FALSE(mine.describe(describe(memory, max_shared_allocations), why_));
  EXPECT_FALSE(mine.retire(9, why_));
}

/// Pages of two allocations of this process, described by descriptors of its own.
class pages_imports_test : public imports_test {
 protected:
  ~pages_imports_test() override { world_.free_pages(base_); }
  shared_allocation describe(std::uint32_t id) {
    shared_allocation made;
    made.id = id;
    made.uuid = cuda_at(0).facts().uuid;
    made.base = reinterpret_cast<std::uintptr_t>(base_);
    made.bytes = 3 * 4096;
    made.page_count = 2;
    set_owner_of_pages(made, shm::process_number::here());
    return made;
  }
  std::vector<described_pages> pages() {
    std::vector<described_pages> made;
    for (const auto& [offset, bytes] : {std::pair{0, 4096}, std::pair{4096, 8192}}) {
      exported_.emplace_back(cuda_at(0).export_pages(base_ + offset));
      made.push_back(
          {static_cast<std::uint32_t>(exported_.back().get()), static_cast<std::uint64_t>(bytes)});
    }
    return made;
  }
  std::string answer_of(imports& by) {
    imports::answer answer;
    EXPECT_TRUE(by.next(cuda_at(1), answer));
    return answer.why;
  }

  std::byte* const base_ = world_.make_pages(0, {4096, 8192});
  std::vector<detail::owned_descriptor> exported_;
};

TEST_F(pages_imports_test, they_are_mapped_once_for_all_devices) {
  imports mine(peer_access::mapped);
  ASSERT_TRUE(mine.describe(describe(3), why_)) << why_;
  EXPECT_FALSE(mine.has_unanswered()) << "the pages have not arrived";
  const std::vector<described_pages> all = pages();
  EXPECT_TRUE(mine.add_pages(3, std::span(all).first(1), why_));
  EXPECT_FALSE(mine.has_unanswered());
  EXPECT_FALSE(mine.find({3, 0}, 1, cuda_at(1), why_)) << "one of them is missing";
  EXPECT_NE(why_.find("of whose 2 pages 1 are described"), std::string::npos) << why_;
  EXPECT_TRUE(mine.add_pages(3, std::span(all).last(1), why_));
  EXPECT_EQ(answer_of(mine), "");
  exported_.clear();
  for (const int device : {1, 0}) {
    const auto found = mine.find({3, 4000}, 8000, cuda_at(device), why_);
    ASSERT_TRUE(found) << why_;
    std::byte* const there = world_.host(static_cast<const std::byte*>(found->from), 8000);
    there[200] = std::byte{42};
    EXPECT_EQ(*world_.host(base_ + 4200), std::byte{42}) << "the same memory";
  }
  EXPECT_EQ(openings(), 1U);
  EXPECT_EQ(world_.calls("cuMemMap"), 2U);
  EXPECT_EQ(world_.calls("cuMemSetAccess"), 2U);
  EXPECT_TRUE(mine.retire(3, why_));
  EXPECT_EQ(openings(), 0U);
}

TEST_F(pages_imports_test, descriptions_are_validated) {
  const std::vector<described_pages> all = pages();
  imports mine(peer_access::mapped);
  EXPECT_FALSE(mine.add_pages(3, all, why_)) << "not described";
  ASSERT_TRUE(mine.describe(describe(3), why_));
  std::vector<described_pages> more = all;
  more.push_back(all[0]);
  EXPECT_FALSE(mine.add_pages(3, more, why_));
  EXPECT_NE(why_.find("3 pages of allocation 0x3, of which 2 are left"), std::string::npos) << why_;
  more.pop_back();
  more[1].bytes += 4096;
  EXPECT_FALSE(mine.add_pages(3, more, why_));
  EXPECT_NE(why_.find("16384 bytes in the pages"), std::string::npos) << why_;
  ASSERT_TRUE(mine.describe(describe(4), why_));
  more[1].bytes = 0;
  EXPECT_FALSE(mine.add_pages(4, more, why_));
}

TEST_F(pages_imports_test, another_process_and_other_descriptors_are_refused) {
  imports mine(peer_access::mapped);
  const std::vector<described_pages> all = pages();
  shared_allocation other = describe(0);
  shm::process_number later = shm::process_number::here();
  ++later.started;
  set_owner_of_pages(other, later);
  ASSERT_TRUE(mine.describe(other, why_) && mine.add_pages(0, all, why_));
  EXPECT_NE(answer_of(mine).find("another process has its number"), std::string::npos);
  ASSERT_TRUE(mine.describe(describe(1), why_));
  ASSERT_TRUE(mine.add_pages(1, std::vector{described_pages{100'000, 4096}, all[1]}, why_));
  EXPECT_NE(answer_of(mine).find("cannot be copied: Bad file descriptor"), std::string::npos);
  ASSERT_TRUE(mine.describe(describe(2), why_));
  ASSERT_TRUE(mine.add_pages(2, std::vector{all[0], described_pages{0, 8192}}, why_));
  EXPECT_NE(answer_of(mine).find("cuMemImportFromShareableHandle on cuda:1"), std::string::npos);
  EXPECT_EQ(openings(), 0U);
}

TEST(imports_without_peers, devices_without_peer_access_are_named) {
  cuda_double::options apart;
  apart.peers.emplace();
  cuda_double world(apart);
  const buffer memory(4096, memory_kind::cuda, 0);
  for (const peer_access by : {peer_access::same_process, peer_access::mapped}) {
    imports mine(by);
    std::string why;
    ASSERT_TRUE(mine.describe(describe(memory, 0), why));
    imports::answer answer;
    ASSERT_TRUE(mine.next(cuda_at(1), answer));
    EXPECT_NE(answer.why.find("cuda:1 and cuda:0 have no peer access"), std::string::npos)
        << answer.why;
  }
  EXPECT_EQ(world.calls("cuIpcOpenMemHandle"), 0U);
}

TEST(sharing_test, processes_identify_themselves_and_their_host) {
  const process_location here = process_location::here();
  process_location other = here;
  std::string why;
  EXPECT_EQ(choose_peer_access(here, process_location::here(), why), peer_access::same_process);
  other.process[15] ^= std::byte{1};
  EXPECT_EQ(choose_peer_access(here, other, why), peer_access::mapped);
  EXPECT_EQ(why, "");
  other.host[0] ^= std::byte{1};
  EXPECT_EQ(choose_peer_access(here, other, why), peer_access::none);
  EXPECT_EQ(why, "they are on different hosts");
}

}  // namespace
}  // namespace tandem::devices
