#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <list>
#include <memory>
#include <tandem/async.hpp>
#include <tandem/detail/poller.hpp>

#include "progress.hpp"

namespace tandem::c {

/// Waits on the loop for words of pinned memory that streams write, without a call of the driver,
/// which another thread may keep locked until the stream goes on. While the loop polls it reads the
/// words, and at intervals when it sleeps.
/// @par Executor  All calls, and its destruction, on the loop's.
class word_watch final : public std::enable_shared_from_this<word_watch>, private pollable {
 public:
  explicit word_watch(const asio::any_io_executor& executor);

  /// Until the word is at least `value` (`detail::has_reached`).
  /// @par Cancellation  Terminal: at once.
  asio::awaitable<void> reached(std::uint32_t& word, std::uint32_t value);

 private:
  struct waiting {
    std::uint32_t* word;
    std::uint32_t value;
  };

  bool poll() override;
  void arm() override;
  void look();

  std::list<waiting> waiting_;
  async_condition changed_;
  asio::steady_timer timer_;
  growing_interval interval_;
  bool is_timer_set_ = false;
};

}  // namespace tandem::c
