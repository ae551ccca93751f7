#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <tandem/detail/board.hpp>
#include <tandem/detail/pending.hpp>
#include <tandem/detail/poller.hpp>
#include <tandem/error.hpp>
#include <tandem/settings.hpp>
#include <vector>

#include "shared_memory/shared_pages.hpp"
#include "transports/shm/spin_wait_policy.hpp"

namespace tandem::shm {

class mesh;

/// A board in memory that processes share. While loops poll there is no system call; a blocked loop
/// is woken by the doorbell of the link to it, which also detects a lost rank.
class shared_board final : public board,
                           public std::enable_shared_from_this<shared_board>,
                           private pollable,
                           private pending_owner {
 public:
  /// As `fabric::share_board`. @par Errors thrown: `limit_exceeded`, `unsupported_memory`; and
  /// `bad_input`: `location` does not parse.
  static std::shared_ptr<shared_board> make(const std::shared_ptr<mesh>& over,
                                            std::span<const int> members, std::string& location,
                                            const settings& options);
  /// Rings the other ranks a last time, never itself.
  ~shared_board() override {
    clear_blocked();
    flush_wakeups();
  }

  bool spin_wait(waiter& w) noexcept override;
  void wait(waiter& w, std::chrono::steady_clock::time_point due) override;
  void on_shared() noexcept override { pages_->close_descriptor(); }
  void cancel_wait(waiter& w) noexcept override;
  const std::shared_ptr<const error>& failed() const noexcept override { return failed_; }

  /// A doorbell has arrived.
  void wake();
  /// Fails the waiting calls, from the executor, and every later one.
  void fail(const error& reason);

 private:
  using clock = std::chrono::steady_clock;
  struct entry {
    waiter* who;
    clock::time_point due;
  };

  shared_board(std::weak_ptr<mesh> over, const asio::any_io_executor& executor,
               std::unique_ptr<shared_pages> pages, std::vector<int> members, int rank,
               const settings& options);

  bool poll_waiters();
  bool can_progress() const noexcept;
  void arm_timer(clock::time_point when);
  void expire();
  void fail_waiters();
  void poll_later();
  bool poll() override;
  void arm() override;
  void ring_doorbell(int of_rank) noexcept override;
  bool flushes_soon() const noexcept override { return loop().is_polling(); }
  void abandon() noexcept override;

  const std::weak_ptr<mesh> over_;
  const asio::any_io_executor executor_;
  const std::unique_ptr<shared_pages> pages_;
  const std::vector<int> members_;  // rank in the job, by rank on the board
  const std::chrono::milliseconds timeout_;
  std::vector<entry> waiting_;
  asio::steady_timer timer_;
  bool timer_runs_ = false;
  bool is_armed_ = false;
  bool poll_posted_ = false;
  spin_wait_policy spin_wait_policy_;
  std::shared_ptr<const error> failed_;
};

}  // namespace tandem::shm
