// Private: shared by the engine and the modules built on it. The public interface is
// `tandem::batch`.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <memory>
#include <optional>
#include <span>
#include <tandem/channel.hpp>
#include <tandem/detail/waiting.hpp>

namespace tandem::detail {

namespace asio = boost::asio;

/// Advice in every error about mismatched calls.
inline constexpr const char* same_call_advice =
    "make the same call with the same length, type and settings on every rank";

/// Whether the operation is to end also where that has side effects.
inline bool is_terminal(asio::cancellation_type type) noexcept {
  return (type & asio::cancellation_type::terminal) != asio::cancellation_type::none;
}

/// The channel to one peer.
struct peer_channel {
  channel* on = nullptr;
  int peer = -1;  ///< its rank in the job, for errors
};

/// One send, receive or probe of a flight.
struct transfer : operation {
  peer_channel path;
  class flight* of = nullptr;
  bool pending = false;
  bool must_fill = false;  ///< a receive that the message must fill
};

/// The concurrent sends and receives of one coroutine. Starting one needs no coroutine frame;
/// waiting needs one.
///
///   io.recv(in, from, flow, into);
///   io.send(out, to, flow, what);
///   while (!io.over(in)) co_await io.until(in);
///   while (!io.over(out)) co_await io.until(out);
///
/// When one of them fails, `over` throws and the others still use their views: the owner of the
/// flight must cancel them and wait until it is idle. Must not move while any is pending.
class flight {
 public:
  /// @pre both outlive the flight.
  flight(std::span<transfer> transfers, const asio::any_io_executor& executor) noexcept
      : transfers_(transfers), executor_(executor) {}
  flight(const flight&) = delete;
  flight& operator=(const flight&) = delete;

  /// Replaces the transfers. @pre idle; they outlive the flight or the next call of this.
  void use(std::span<transfer> transfers) noexcept { transfers_ = transfers; }

  /// @pre `t` is one of the transfers and not pending.
  void send(transfer& t, const peer_channel& to, flow_id flow, const_view message);
  /// A message that does not fill the view is `errc::call_mismatch`.
  void recv(transfer& t, const peer_channel& from, flow_id flow, mutable_view into);
  /// A message of any length up to that of the view.
  void recv_some(transfer& t, const peer_channel& from, flow_id flow, mutable_view into);

  /// Waits for a message that a later receive can take (`channel::probe`).
  void probe(transfer& t, const peer_channel& from, flow_id flow);

  /// True if `t` has completed; may spin briefly for it (`channel::spin_wait`). Throws the first
  /// failure of any transfer.
  bool over(transfer& t) {
    if (failed_ == nullptr && t.pending && t.path.on->spin_wait(t)) completed_by_spin(t);
    if (failed_ != nullptr) throw_failure();
    return !t.pending;
  }
  bool idle() const noexcept { return pending_ == 0; }
  /// The first failed transfer, or null.
  const transfer* failed() const noexcept { return failed_; }

  /// Suspends until `t` has completed or any transfer has failed. @pre t is pending.
  /// Cancellation, terminal: cancels all of them.
  asio::awaitable<void> until(transfer& t);
  /// Suspends until any transfer has completed or failed. @pre not idle.
  asio::awaitable<void> until_any();
  /// Suspends until none is pending. @pre not idle.
  asio::awaitable<void> until_idle();

  /// Requests cancellation of all pending transfers.
  void cancel() noexcept;
  /// Its transfers are messages of their own: total and partial cancellation end them only if none
  /// has moved.
  void honours_total_cancellation() noexcept { spares_moving_ = true; }
  /// Clears the recorded failure. @pre idle.
  void reset() noexcept { failed_ = nullptr; }
  /// Signature of every later send, and the one expected by every later receive.
  void set_signature(const call_signature& signature) noexcept { signature_ = signature; }
  /// Deadline of every later transfer; `time_point::max()`: the channel's default.
  void set_deadline(operation::time_point due) noexcept { deadline_ = due; }
  operation::time_point deadline() const noexcept { return deadline_; }
  /// Sets `operation::rewritten` for every later send.
  void rewrites(bool on) noexcept { rewrites_ = on; }
  /// The coroutine was destroyed with transfers pending: keeps `memory`, which contains this
  /// object, alive until none is.
  void keep_alive(std::shared_ptr<void> memory) noexcept { memory_ = std::move(memory); }

 private:
  struct suspend;

  void start(transfer& t, operation::kind what, const peer_channel& path, flow_id flow,
             mutable_view view, bool must_fill);
  bool has_moved() noexcept;
  void note_result(transfer& t) noexcept;
  void completed_by_spin(transfer& t) noexcept;
  void completed(transfer& t);
  void destroyed(transfer& t) noexcept;
  [[noreturn]] void throw_failure() const;

  std::span<transfer> transfers_;
  const asio::any_io_executor& executor_;
  std::size_t pending_ = 0;
  call_signature signature_;
  operation::time_point deadline_ = operation::time_point::max();
  bool rewrites_ = false;
  transfer* failed_ = nullptr;
  transfer* awaited_ = nullptr;  // null: the handler waits for all, or for any
  bool awaits_any_ = false;
  std::optional<waiting_handler> handler_;
  bool spares_moving_ = false;
  bool cancelling_ = false;
  bool wake_ = false;  // a wake-up was deferred while `cancelling_`
  std::shared_ptr<void> memory_;
};

}  // namespace tandem::detail
