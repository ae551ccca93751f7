#include "group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "call.hpp"

namespace tandem::detail {
namespace {

constexpr std::uint16_t most_groups = 1 << 12;

std::vector<int> checked(std::vector<int> members, const fabric& over, std::uint16_t id) {
  const auto refuse = [id](const std::string& why) {
    throw error(errc::bad_input, fmt::format("communicator {}: {}", id, why));
  };
  if (id >= most_groups) refuse(fmt::format("its id is beyond {}", most_groups - 1));
  if (members.empty()) refuse("it has no members");
  std::vector<int> sorted = members;
  std::ranges::sort(sorted);
  if (sorted.front() < 0) refuse(fmt::format("rank {} is no rank", sorted.front()));
  if (sorted.back() >= over.size()) {
    refuse(fmt::format("rank {} is not in a job of {} ranks", sorted.back(), over.size()));
  }
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) refuse(fmt::format("rank {} is in it twice", *twice));
  if (!std::ranges::binary_search(sorted, over.rank())) {
    refuse(fmt::format("this rank, {}, is not a member", over.rank()));
  }
  return members;
}

}  // namespace

group::group(fabric& over, const settings& options, std::vector<int> members, std::uint16_t id)
    : over_(over),
      executor_(over.get_executor()),
      members_(checked(std::move(members), over, id)),
      id_(id),
      ring_bytes_(options.all_reduce_ring_bytes),
      chunk_bytes_(std::max<std::size_t>(options.collective_chunk_bytes, 1)) {
  const auto me = std::ranges::find(members_, over.rank());
  rank_ = static_cast<int>(me - members_.begin());
}

asio::awaitable<void> group::connect(int peer) {
  co_await over_.to(member(peer));
}

std::shared_ptr<call> group::take(std::size_t scratch_bytes) {
  if (free_.empty()) return std::make_shared<call>(executor_, scratch_bytes);
  const auto fits = [scratch_bytes](const auto& c) { return c->scratch_bytes() >= scratch_bytes; };
  const auto found = std::ranges::find_if(free_, fits);
  std::swap(found == free_.end() ? free_.front() : *found, free_.back());
  const std::shared_ptr<call> taken = free_.back();
  taken->reserve(scratch_bytes);
  free_.pop_back();
  return taken;
}

void group::give_back(std::shared_ptr<call> used) noexcept {
  try {
    free_.push_back(std::move(used));
  } catch (...) {  // out of memory: the next call makes a new one
  }
}

unsigned group::open_number() {
  check_alive();
  const std::uint64_t bit = std::uint64_t{1} << next_number_;
  if ((open_ & bit) != 0) {
    throw error(errc::limit_exceeded,
                fmt::format("{} collectives are under way on one communicator", calls_at_once),
                "await some of them before starting more");
  }
  open_ |= bit;
  return std::exchange(next_number_, (next_number_ + 1) % calls_at_once);
}

void group::open_pipeline() {
  check_alive();
  if (pipeline_open_) {
    throw error(errc::bad_input, "a pipeline is under way on this communicator already",
                "await it first");
  }
  pipeline_open_ = true;
}

void group::check_alive() const {
  if (failed_) throw error(*failed_);
}

void group::fail(const error& reason) noexcept {
  if (!failed_) failed_ = reason;
  over_.fail(*failed_);
}

}  // namespace tandem::detail
