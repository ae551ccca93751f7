#pragma once

#include <boost/asio/awaitable.hpp>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <tandem/async.hpp>
#include <tandem/detail/flight.hpp>
#include <tandem/window.hpp>
#include <vector>

#include "communicator/group.hpp"
#include "windows/mapped_ranks.hpp"
#include "windows/request.hpp"

namespace tandem::detail {

/// A rank's part of a window, shared with its calls and with the coroutines that serve its memory.
///
/// Memory of other ranks that is mapped here is accessed by copies. Else a request is a message on
/// one flow; payloads of puts follow on a second, and what is answered on a third. Each rank serves
/// the requests of another one after the other.
class window_state : public std::enable_shared_from_this<window_state> {
 public:
  using pointer = std::shared_ptr<window_state>;

  /// @param mapped  null for ranks whose memory is not mapped here
  window_state(std::shared_ptr<group> in, mutable_view memory, std::vector<std::uint64_t> sizes,
               std::vector<mapped_ranks::mapping> mapped);

  /// Serves this rank's memory from now on. @pre connected to all ranks.
  void start();
  /// Ends the service.
  void close() noexcept;

  static asio::awaitable<void> put(pointer self, int to, window_request what, const_view from);
  /// Also a flush and a leave, whose answers are empty.
  static asio::awaitable<void> get(pointer self, int from, window_request what, mutable_view into);
  static asio::awaitable<window_notification> notified(pointer self);
  /// Ends the service once all ranks have called it.
  static asio::awaitable<void> close_together(pointer self);

  std::uint64_t bytes(int rank) const;
  bool is_mapped(int rank) const;

 private:
  enum class flow_use : std::uint32_t { requests, payloads, answers };

  static asio::awaitable<void> serve(pointer self, int peer);
  static asio::awaitable<void> serve_until_left(pointer self, int peer, flight& io, transfer& one);
  static asio::awaitable<void> wait_for(pointer self, const mapped_ranks::place& turn);
  static asio::awaitable<void> await_messages(pointer self, int to);
  static asio::awaitable<void> copy(pointer self, mutable_view into, const_view from);
  static asio::awaitable<void> ask(pointer self, int of, window_request what, const_view payload,
                                   mutable_view answer, std::optional<mapped_ranks::place>& turn);
  static asio::awaitable<void> carry_out(pointer self, flight& io, std::span<transfer> both);
  window_request checked(const window_request::wire& from, int peer) const;
  void require(int rank, const window_request& what, const char* call) const;
  void arrived(int from, const window_request& what);
  [[noreturn]] void fail(const error& reason);
  [[noreturn]] void fail_with(const std::exception_ptr& failure);
  flow_id flow(flow_use use) const noexcept;

  const std::shared_ptr<group> group_;
  const mutable_view memory_;
  const region registered_;
  const std::vector<std::uint64_t> sizes_;  // of each rank's memory
  const std::uint32_t number_;              // among the windows of the group
  mapped_ranks mapped_;
  std::vector<std::uint64_t> next_request_;  // to each rank
  std::vector<flight*> services_;            // of each rank; null: it has ended
  std::deque<window_notification> arrived_;
  async_condition changed_;
  int left_ = 0;     ///< ranks that will ask no more
  int serving_ = 0;  ///< ranks that may still ask
  bool is_closed_ = false;
};

}  // namespace tandem::detail
