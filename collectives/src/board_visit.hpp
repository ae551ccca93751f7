#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <tandem/board.hpp>
#include <tandem/detail/waiting.hpp>

namespace tandem::detail {

/// One call at the board of its group: writes what this rank brings, and waits for the others.
///
///   while (!at.may_write()) co_await at.wait();
///   ... into at.place() ...
///   at.publish(bytes);
///   while (!at.have(first, last)) co_await at.wait();
///
/// Cancellation, terminal, of a wait: the next question throws.
class board_visit final : private board::waiter {
 public:
  /// @pre it outlives the visit.
  explicit board_visit(const asio::any_io_executor& executor) noexcept : executor_(executor) {}
  board_visit(const board_visit&) = delete;
  board_visit& operator=(const board_visit&) = delete;

  /// @param call  its place among all calls of the group.
  void open(board& on, std::uint64_t call, const message_note& note) noexcept;
  void close() noexcept;

  /// True when nobody reads any more what stood there. Throws why the visit has failed.
  bool may_write();
  /// @pre may_write.
  std::byte* place() const noexcept { return place_; }
  void publish(std::size_t bytes) noexcept { on_->publish(call_, note_, bytes); }
  /// True when the ranks from `first` to before `last` have brought something, but for this rank;
  /// the same ranks whenever it is asked.
  /// Throws why the visit has failed.
  bool have(int first, int last);
  board::brought of(int rank) const noexcept { return on_->find(rank, call_); }

  /// Until the last question may have another answer. @pre it was answered with no.
  asio::awaitable<void> wait();

 private:
  struct suspend;

  bool ask();
  void cancel() noexcept;
  bool look() noexcept override;
  void over(std::shared_ptr<const error> failure) override;
  void gone() noexcept override;
  int missing() const noexcept override { return writes_ ? on_->behind() : next_; }

  const asio::any_io_executor& executor_;
  board* on_ = nullptr;
  std::uint64_t call_ = 0;
  message_note note_;
  std::byte* place_ = nullptr;
  bool writes_ = false;
  int next_ = 0, last_ = 0;
  std::optional<waiting_handler> handler_;
  std::shared_ptr<const error> failure_;
};

}  // namespace tandem::detail
