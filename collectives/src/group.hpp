#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <vector>

#include "flight.hpp"

namespace tandem::detail {

class call;

/// What a communicator is made of; calls under way share it.
class group {
 public:
  enum class flow_class : std::uint32_t { point_to_point = 0, collective = 1, pipeline = 2 };
  static constexpr unsigned calls_at_once = 64;

  group(fabric& over, const settings& options, std::vector<int> members, std::uint16_t id);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(members_.size()); }
  /// The rank in the job of a rank here.
  int member(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }
  int job_rank() const noexcept { return member(rank_); }
  const asio::any_io_executor& executor() const noexcept { return executor_; }
  std::size_t ring_bytes() const noexcept { return ring_bytes_; }
  std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }

  flow_id flow(flow_class use, std::uint32_t tag) const noexcept {
    return id_ << 20 | static_cast<std::uint32_t>(use) << 16 | tag;
  }

  /// @pre `peer` is a rank here and another one.
  bool connected(int peer) const noexcept { return over_.find(member(peer)) != nullptr; }
  asio::awaitable<void> connect(int peer);
  /// @pre connected.
  link to(int peer) const noexcept { return {over_.find(member(peer)), member(peer)}; }

  /// A free place for a call to work in: one that was used before and holds at least so much
  /// scratch, if there is one. `take` and `give_back` never suspend.
  std::shared_ptr<call> take(std::size_t scratch_bytes);
  void give_back(std::shared_ptr<call> used) noexcept;

  /// The number of the next collective. @par Errors `limit_exceeded`; nothing has changed.
  unsigned open_number();
  void close_number(unsigned number) noexcept { open_ &= ~(std::uint64_t{1} << number); }
  void open_pipeline();
  void close_pipeline() noexcept { pipeline_open_ = false; }

  /// What ended this group, if something did.
  const std::optional<error>& failed() const noexcept { return failed_; }
  /// Throws it.
  void check_alive() const;
  /// Ends this group and tells every rank of the job.
  void fail(const error& reason) noexcept;

 private:
  fabric& over_;
  const asio::any_io_executor executor_;
  const std::vector<int> members_;
  int rank_ = 0;
  const std::uint32_t id_;
  const std::size_t ring_bytes_;
  const std::size_t chunk_bytes_;
  std::vector<std::shared_ptr<call>> free_;
  unsigned next_number_ = 0;
  std::uint64_t open_ = 0;  // bit k: the collective numbered k is under way here
  bool pipeline_open_ = false;
  std::optional<error> failed_;
};

}  // namespace tandem::detail
