#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <tandem/accelerator.hpp>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <tandem/communicator.hpp>
#include <tandem/detail/nccl.hpp>
#include <thread>
#include <utility>

#include "islands/division.hpp"

namespace tandem::detail {

/// The library's code for a type; empty: that version does not support it.
std::optional<int> vendor_type(data_type type, int version) noexcept;
/// The library's code for an operation, if it combines two operands as Tandem does; empty for
/// average and premultiplied sums, and for minimum and maximum of floating point, where the
/// libraries return the other operand if one is NaN, which hides it, and do not specify zeros.
std::optional<int> vendor_op(reduce_op op, data_type type) noexcept;

/// Makes the device current on the calling thread, as the libraries require.
class device_guard {
 public:
  explicit device_guard(accelerator& of) : of_(of) { of_.enter(); }
  ~device_guard() { of_.leave(); }
  device_guard(const device_guard&) = delete;
  device_guard& operator=(const device_guard&) = delete;

 private:
  accelerator& of_;
};

/// One communicator of a vendor's library with its own stream, on which its calls run in order. All
/// ranks make the same calls in the same order; `vendor_calls` groups several calls into one.
class vendor_group {
 public:
  vendor_group(accelerator& device, const nccl& lib, int rank, int size);
  ~vendor_group();
  vendor_group(const vendor_group&) = delete;
  vendor_group& operator=(const vendor_group&) = delete;

  /// Initialises the library; every rank of `inside` calls it before all else. The library's
  /// blocking initialisation runs on a thread of its own, which is abandoned if the group is
  /// aborted meanwhile, or after the `operation_timeout` of the settings. @par Errors
  /// `device_failed`, with the library's error text; `timed_out`; the reason of an abort.
  asio::awaitable<void> start(communicator& inside);
  /// The same with the id that one of the ranks has made and reported to the others.
  /// @param first  a call that all ranks make on the thread that initialises the library: the
  ///   library connects ranks in their first call, and blocks its thread; may be empty
  asio::awaitable<void> start(asio::any_io_executor executor, nc::unique_id id,
                              std::chrono::milliseconds limit,
                              std::function<nc::result(nc::comm)> first = {});
  /// For `start`: one byte from rank 0 to rank 1 of two, or the other way round.
  std::function<nc::result(nc::comm)> first_message(void* byte, bool is_sender) const;

  accelerator::stream stream() const noexcept { return other_ ? *other_ : stream_.get(); }
  /// For the calls that follow: another stream; empty: its own.
  void use(std::optional<accelerator::stream> other) noexcept { other_ = other; }
  nc::comm native() const noexcept { return comm_; }
  nc::comm release() noexcept { return std::exchange(comm_, nullptr); }

  /// Aborts the communicator because a rank is lost: work on the stream ends, and every later call
  /// throws `why`.
  void abort_group(const error& why);
  /// Calls of this thread until `end_batch`, of other groups of the device too, are launched as
  /// one.
  void begin_batch() const;
  void end_batch() const;
  /// The other rank of a group of two.
  int peer() const noexcept { return 1 - rank_; }
  /// Throws the reason if the group was aborted. Call it after waiting for the stream.
  void throw_if_failed() const;

  /// Divides `count` elements into `leader_count` segments and reduces segment k to `into` of rank
  /// k, which may be its segment of `from`; `into` is ignored on other ranks.
  void reduce_segments(const std::byte* from, std::byte* into, std::size_t count,
                       std::size_t element_bytes, int leader_count, int type, int op);
  /// Broadcasts segment k from rank k to all, in place.
  void broadcast_segments(std::byte* data, std::size_t count, std::size_t element_bytes,
                          int leader_count, int type);
  /// Sends segment k of the root's data to rank k.
  void scatter_segments(std::byte* data, std::size_t count, std::size_t element_bytes,
                        int leader_count, int type, int root);
  /// Sends segment k from `part` of rank k to the root's data, which already has the root's own.
  void collect_segments(const std::byte* part, std::byte* data, std::size_t count,
                        std::size_t element_bytes, int leader_count, int type, int root);
  void all_reduce(const std::byte* data, std::byte* result, std::size_t count, int type, int op);
  /// Reduces block k of all ranks' data to `mine` of rank k.
  void reduce_scatter(const std::byte* all, std::byte* mine, std::size_t count, int type, int op);
  void all_gather(const std::byte* mine, std::byte* all, std::size_t count, int type);
  /// Creates a premultiplied sum with this rank's factor; released with `free_op`.
  int make_factor(double factor, data_type type, int vendor_type);
  void free_op(int op) noexcept;

 private:
  friend class vendor_calls;
  class wait_for_start;
  void check_status(nc::result status, const char* call) const;

  accelerator& device_;
  const nccl& lib_;
  const int rank_, size_;
  device_stream stream_;
  std::optional<accelerator::stream> other_;
  nc::comm comm_ = nullptr;
  std::optional<error> lost_;
  async_condition* start_changed_ = nullptr;  // notified to end the wait for the initialisation
  std::thread abort_thread_;                  // runs the abort
};

/// The library's codes of a reduction, for the calls made while it exists.
class vendor_reduction {
 public:
  /// @param version  the lowest of all ranks @pre the library has the reduction: `vendor_op`, a
  ///   premultiplied sum, or the average of a floating point type
  vendor_reduction(vendor_group& by, int version, data_type type, reduction what);
  ~vendor_reduction();
  vendor_reduction(const vendor_reduction&) = delete;
  vendor_reduction& operator=(const vendor_reduction&) = delete;

 private:
  vendor_group& by_;
  bool has_made_ = false;  // op needs to be freed

 public:
  const int type;
  int op = 0;
};

/// Calls that the library launches as one group (ncclGroupStart, ncclGroupEnd) on the group's
/// stream at `end`. The device is current on the thread meanwhile, so no coroutine may suspend
/// while an object exists. Roots and peers are ranks of the group; counts are in elements.
/// @par Errors `device_failed`, or the reason of an abort; then nothing is launched.
class vendor_calls {
 public:
  explicit vendor_calls(const vendor_group& by);
  ~vendor_calls();
  vendor_calls(const vendor_calls&) = delete;
  vendor_calls& operator=(const vendor_calls&) = delete;

  /// `into` is ignored except at the root.
  void reduce(const std::byte* from, std::byte* into, std::size_t count, int type, int op,
              int root);
  /// `from` is ignored except at the root.
  void broadcast(const std::byte* from, std::byte* into, std::size_t count, int type, int root);
  void send(const std::byte* from, std::size_t count, int type, int to);
  void recv(std::byte* into, std::size_t count, int type, int from);
  void end();

 private:
  const vendor_group& by_;
  const device_guard on_;
  bool ended_ = false;
};

}  // namespace tandem::detail
