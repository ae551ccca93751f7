// A long job creates many communicators; they need no file descriptors, not over shared memory
// either.
#include <dirent.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/collectives.hpp>
#include <tandem/communicator.hpp>
#include <tandem/plan.hpp>
#include <vector>

#include "support/coroutine_test.hpp"
#include "support/fabric_maker.hpp"

namespace tandem {
namespace {

using test::awaitable;

constexpr int groups = 300;

int open_descriptors() {
  int found = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++found;
  ::closedir(folder);
  return found;
}

int mapped_boards() {
  int found = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("tandem-board") != std::string::npos) ++found;
  }
  return found;
}

struct descriptor_use {
  int before = 0, with_all = 0;
  int boards_before = 0, boards_with_all = 0;
};

awaitable<void> hold_many(fabric& over, descriptor_use& found) {
  communicator world = co_await make_communicator(over, settings());
  co_await barrier(world);
  found.before = open_descriptors();
  found.boards_before = mapped_boards();
  std::vector<std::unique_ptr<communicator>> parts;
  for (int i = 0; i < groups; ++i) {
    std::unique_ptr<communicator> part = co_await world.split(0);
    parts.push_back(std::move(part));
  }
  co_await barrier(world);
  found.with_all = open_descriptors();
  found.boards_with_all = mapped_boards();
  for (std::size_t i = 0; i < parts.size(); i += parts.size() - 1) {
    std::int64_t one = 1;
    const mutable_view data(&one, sizeof one);
    co_await all_reduce(*parts[i], data, data_type::int64, reduce_op::sum);
    EXPECT_EQ(one, parts[i]->size());
    EXPECT_TRUE(parts[i]->agreed().known().has_board);
  }
  co_await barrier(world);
}

awaitable<void> many_groups(std::vector<descriptor_use>& found) {
  test::fabrics all = co_await test::make_job(2, settings(), shm::make_fabric);
  std::vector<awaitable<void>> ranks;
  for (std::size_t rank = 0; rank < 2; ++rank) ranks.push_back(hold_many(*all[rank], found[rank]));
  co_await when_all(std::move(ranks));
  EXPECT_LE(mapped_boards(), 2) << "mappings end with their communicators";
}

TEST(Descriptors, SharedMemoryCommunicatorsUseNone) {
  std::vector<descriptor_use> found(2);
  test::run_test(many_groups(found), test::drive::by_asio, std::chrono::seconds(60));
  // Rank 0 creates the boards; it may be in the middle of one while rank 1 counts.
  // One of two crossed connections may have been closed since.
  EXPECT_LE(found[0].with_all, found[0].before);
  EXPECT_EQ(found[0].boards_with_all - found[0].boards_before, 2 * groups);
}

}  // namespace
}  // namespace tandem
