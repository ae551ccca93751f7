#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <tandem/detail/board.hpp>
#include <tandem/detail/waiting.hpp>

namespace tandem::detail {

/// The access of one call to the board of its group: writes this rank's data and waits for the
/// others.
///
///   while (!at.may_write()) co_await at.wait();
///   ... into at.place() ...
///   at.publish(bytes);
///   while (!at.have(first, last)) co_await at.wait();
///
/// @par Cancellation  Terminal, of `wait`: the next `may_write` or `have` throws.
class board_access final : private board::waiter {
 public:
  /// @pre the executor outlives this object.
  explicit board_access(const asio::any_io_executor& executor) noexcept : executor_(executor) {}
  board_access(const board_access&) = delete;
  board_access& operator=(const board_access&) = delete;

  /// @param call  its sequence number among all calls of the group
  void open(board& on, std::uint64_t call, const call_signature& signature) noexcept;
  void close() noexcept;
  /// Deadline of later waits; `time_point::max()`: after the settings' timeout.
  void set_deadline(std::chrono::steady_clock::time_point due) noexcept { due_ = due; }

  /// Whether this rank's slot is free: no rank reads its previous contents any more.
  /// @par Errors  Why the board or this call has failed.
  bool may_write();
  /// @pre may_write.
  std::byte* slot() const noexcept { return slot_; }
  void publish(std::size_t bytes) noexcept { on_->publish(call_, signature_, bytes); }
  /// Whether the ranks [first, last), except this one, have written their data. The range must be
  /// the same in every call until it returns true. @par Errors  As `may_write`.
  bool have(int first, int last);
  board::contribution of(int rank) const noexcept { return on_->find(rank, call_); }

  /// Suspends until `may_write` or `have`, whichever was called last, may return true.
  /// @pre it returned false.
  asio::awaitable<void> wait();

 private:
  struct suspend;

  bool ask();
  void cancel() noexcept;
  bool poll() noexcept override;
  void complete(std::shared_ptr<const error> failure) override;
  void abandon() noexcept override;
  std::optional<board::awaited> missing() const noexcept override;
  int missing_rank() const noexcept override { return writes_ ? on_->lagging_rank() : next_; }

  const asio::any_io_executor& executor_;
  std::chrono::steady_clock::time_point due_ = std::chrono::steady_clock::time_point::max();
  board* on_ = nullptr;
  std::uint64_t call_ = 0;
  call_signature signature_;
  std::byte* slot_ = nullptr;
  bool writes_ = false;
  int next_ = 0, last_ = 0;
  std::optional<waiting_handler> handler_;
  std::shared_ptr<const error> failure_;
};

}  // namespace tandem::detail
