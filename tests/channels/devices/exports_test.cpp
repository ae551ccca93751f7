#include "devices/exports.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <tandem/memory.hpp>

#include "doubles/cuda/double.hpp"

namespace tandem::devices {
namespace {

using test::cuda_double;

class exports_test : public testing::Test {
 protected:
  static accelerator& gpu(int which = 0) { return accelerator_at(memory_kind::cuda, which); }

  /// Takes the only update: a description.
  static shared_allocation described(exports& by) {
    exports::update update;
    EXPECT_TRUE(by.next(update));
    EXPECT_TRUE(update.described.has_value());
    EXPECT_FALSE(by.has_updates());
    return update.described.value_or(shared_allocation{});
  }

  cuda_double world_;
};

TEST_F(exports_test, allocation_is_described_once_then_referenced) {
  exports mine(peer_access::mapped);
  const buffer memory(1 << 16, memory_kind::cuda, 1);
  const const_view view = const_view(memory.view()).part(100, 50);
  EXPECT_FALSE(mine.find(gpu(1), view));
  const shared_allocation update = described(mine);
  EXPECT_EQ(update.uuid, gpu(1).facts().uuid);
  EXPECT_EQ(update.base, reinterpret_cast<std::uintptr_t>(memory.data()));
  EXPECT_EQ(update.bytes, memory.size());
  EXPECT_NE(update.handle, accelerator::handle{});
  EXPECT_FALSE(mine.find(gpu(1), view)) << "not opened yet";
  EXPECT_TRUE(mine.opened(update.id));
  const auto reference = mine.find(gpu(1), view);
  ASSERT_TRUE(reference);
  EXPECT_EQ(reference->allocation, update.id);
  EXPECT_EQ(reference->offset, 100U);
  EXPECT_FALSE(mine.has_updates());
  EXPECT_EQ(world_.calls("cuIpcGetMemHandle"), 1U);
}

TEST_F(exports_test, nothing_is_described_to_peer_without_access) {
  exports mine(peer_access::none);
  const buffer memory(64, memory_kind::cuda);
  EXPECT_FALSE(mine.find(gpu(), memory.view()));
  EXPECT_FALSE(mine.has_updates());
}

TEST_F(exports_test, one_process_needs_no_handle) {
  exports mine(peer_access::same_process);
  const buffer memory(64, memory_kind::cuda);
  EXPECT_FALSE(mine.find(gpu(), memory.view()));
  described(mine);
  EXPECT_EQ(world_.calls("cuIpcGetMemHandle"), 0U);
}

TEST_F(exports_test, reallocation_at_same_address_is_new_allocation) {
  exports mine(peer_access::mapped);
  auto first = std::make_unique<buffer>(64, memory_kind::cuda);
  mine.find(gpu(), first->view());
  const shared_allocation before = described(mine);
  mine.opened(before.id);
  first.reset();
  const buffer second(64, memory_kind::cuda);
  EXPECT_FALSE(mine.find(gpu(), second.view()));
  exports::update update;
  ASSERT_TRUE(mine.next(update));
  EXPECT_FALSE(update.described);
  EXPECT_EQ(update.retired, before.id) << "before the peer gets the new allocation";
  EXPECT_NE(described(mine).id, before.id);
  EXPECT_EQ(mine.described(), 1U);
}

TEST_F(exports_test, freed_allocation_is_retired_on_request) {
  exports mine(peer_access::mapped);
  auto first = std::make_unique<buffer>(64, memory_kind::cuda);
  const buffer kept(64, memory_kind::cuda);
  mine.find(gpu(), first->view());
  const std::uint32_t freed = described(mine).id;
  mine.find(gpu(), kept.view());
  described(mine);
  mine.retire_freed();
  EXPECT_FALSE(mine.has_updates());
  first.reset();
  mine.retire_freed();
  exports::update update;
  ASSERT_TRUE(mine.next(update));
  EXPECT_EQ(update.retired, freed);
  EXPECT_FALSE(mine.has_updates());
  EXPECT_EQ(mine.described(), 1U);
}

TEST_F(exports_test, unshareable_allocation_is_tried_once) {
  exports mine(peer_access::mapped);
  const buffer memory(64, memory_kind::cuda);
  world_.fail("cuIpcGetMemHandle", 1, 1);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(mine.find(gpu(), memory.view()));
  EXPECT_FALSE(mine.has_updates());
  EXPECT_EQ(world_.calls("cuIpcGetMemHandle"), 1U);
}

TEST_F(exports_test, allocation_refused_by_peer_is_forwarded) {
  exports mine(peer_access::mapped);
  const buffer memory(64, memory_kind::cuda);
  mine.find(gpu(), memory.view());
  EXPECT_TRUE(mine.refused(described(mine).id, "no peer access"));
  EXPECT_FALSE(mine.find(gpu(), memory.view()));
  EXPECT_FALSE(mine.has_updates());
  EXPECT_EQ(mine.described(), 0U);
}

TEST_F(exports_test, least_recently_used_is_evicted) {
  exports mine(peer_access::mapped, 2);
  const buffer one(64, memory_kind::cuda), two(64, memory_kind::cuda), three(64, memory_kind::cuda);
  mine.find(gpu(), one.view());
  const std::uint32_t first = described(mine).id;
  mine.find(gpu(), two.view());
  const std::uint32_t second = described(mine).id;
  mine.opened(first);
  mine.opened(second);
  EXPECT_TRUE(mine.find(gpu(), one.view()));
  EXPECT_FALSE(mine.find(gpu(), three.view()));
  exports::update update;
  ASSERT_TRUE(mine.next(update));
  EXPECT_EQ(update.retired, second);
  EXPECT_EQ(slot_of(described(mine).id), slot_of(second));
  EXPECT_TRUE(mine.find(gpu(), one.view()));
}

TEST_F(exports_test, answers_to_retired_allocations_are_ignored) {
  exports mine(peer_access::mapped, 1);
  const buffer one(64, memory_kind::cuda), two(64, memory_kind::cuda);
  mine.find(gpu(), one.view());
  const std::uint32_t first = described(mine).id;
  mine.find(gpu(), two.view());
  EXPECT_TRUE(mine.opened(first));
  EXPECT_FALSE(mine.find(gpu(), two.view()));
  EXPECT_FALSE(mine.opened(7)) << "never described";
}

TEST_F(exports_test, view_beyond_its_allocation_is_forwarded) {
  exports mine(peer_access::mapped);
  const buffer memory(64, memory_kind::cuda);
  mine.find(gpu(), memory.view());
  mine.opened(described(mine).id);
  EXPECT_FALSE(mine.find(gpu(), const_view(memory.data(), 65, memory_kind::cuda, 0)));
  EXPECT_TRUE(mine.find(gpu(), const_view(memory.data() + 64 - 1, 1, memory_kind::cuda, 0)));
}

/// Pages of one device: four, one and two of 4096 bytes.
class pages_exports_test : public exports_test {
 protected:
  ~pages_exports_test() override { world_.free_pages(base_); }
  const_view view(std::size_t offset, std::size_t bytes) const {
    return {base_ + offset, bytes, memory_kind::cuda, 0};
  }
  /// Describes and opens what `at` needs.
  shared_allocation open(exports& by, const const_view& at) {
    EXPECT_FALSE(by.find(gpu(), at));
    for (exports::update update; by.next(update);) {
      if (update.described) {
        EXPECT_TRUE(by.opened(update.described->id));
        return *update.described;
      }
      retired_.push_back(update.retired);
    }
    ADD_FAILURE() << "nothing was described";
    return {};
  }

  std::byte* const base_ = world_.make_pages(0, {4 * 4096, 4096, 2 * 4096});
  std::vector<std::uint32_t> retired_;
};

TEST_F(pages_exports_test, as_many_are_described_as_the_view_lies_in) {
  exports mine(peer_access::mapped);
  const shared_allocation made = open(mine, view(4 * 4096 - 1, 2));
  ASSERT_EQ(made.pages.size(), 2U);
  EXPECT_EQ(made.page_count, 2U);
  EXPECT_EQ(made.pages[0].bytes, 4U * 4096);
  EXPECT_EQ(made.pages[1].bytes, 4096U);
  EXPECT_EQ(made.bytes, 5U * 4096);
  EXPECT_EQ(made.base, reinterpret_cast<std::uintptr_t>(base_));
  EXPECT_EQ(owner_of_pages(made).number, static_cast<std::uint32_t>(::getpid()));
  const auto within = mine.find(gpu(), view(4 * 4096 + 5, 100));
  ASSERT_TRUE(within) << "it begins in the second of them";
  EXPECT_EQ(within->offset, 4U * 4096 + 5);
  EXPECT_FALSE(mine.has_updates());
}

TEST_F(pages_exports_test, a_longer_view_replaces_what_was_described) {
  exports mine(peer_access::mapped);
  const shared_allocation first = open(mine, view(0, 1));
  EXPECT_EQ(first.pages.size(), 1U);
  const shared_allocation second = open(mine, view(0, 7 * 4096));
  EXPECT_EQ(second.pages.size(), 3U);
  EXPECT_EQ(retired_, std::vector{first.id});
  EXPECT_TRUE(mine.find(gpu(), view(6 * 4096, 4096)));
  EXPECT_EQ(mine.described(), 1U);
}

TEST_F(pages_exports_test, pages_that_others_have_replaced_are_retired) {
  exports mine(peer_access::mapped);
  const shared_allocation first = open(mine, view(0, 7 * 4096));
  world_.renew_pages(base_ + 4 * 4096);
  EXPECT_TRUE(mine.find(gpu(), view(0, 4096))) << "it does not need them";
  const shared_allocation second = open(mine, view(0, 5 * 4096));
  EXPECT_EQ(retired_, std::vector{first.id});
  EXPECT_EQ(second.pages.size(), 2U);
}

TEST_F(pages_exports_test, descriptors_are_closed_when_the_peer_has_answered) {
  exports mine(peer_access::mapped);
  EXPECT_FALSE(mine.find(gpu(), view(0, 5 * 4096)));
  const shared_allocation made = described(mine);
  const auto is_open = [](const described_pages& each) {
    return ::fcntl(static_cast<int>(each.descriptor), F_GETFD) == FD_CLOEXEC;
  };
  EXPECT_TRUE(std::all_of(made.pages.begin(), made.pages.end(), is_open));
  EXPECT_TRUE(mine.refused(made.id, "no peer access"));
  EXPECT_TRUE(std::none_of(made.pages.begin(), made.pages.end(), is_open));
  EXPECT_FALSE(mine.find(gpu(), view(0, 1)));
  EXPECT_FALSE(mine.has_updates()) << "it is not tried again";
}

TEST_F(pages_exports_test, a_view_beyond_its_pages_is_forwarded) {
  exports mine(peer_access::mapped);
  EXPECT_FALSE(mine.find(gpu(), view(0, 7 * 4096 + 1)));
  EXPECT_FALSE(mine.has_updates());
  EXPECT_EQ(world_.open().page_handles, 0U);
}

TEST_F(exports_test, host_memory_is_not_exported) {
  exports mine(peer_access::mapped);
  int here = 0;
  EXPECT_FALSE(mine.find(gpu(), const_view(&here, sizeof here, memory_kind::cuda, 0)));
  EXPECT_FALSE(mine.has_updates());
}

}  // namespace
}  // namespace tandem::devices
