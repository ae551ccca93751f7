#pragma once

#include <memory>
#include <optional>
#include <tandem/accelerator.hpp>
#include <tandem/collectives/communicator.hpp>
#include <tandem/collectives/reduction.hpp>
#include <tandem/detail/nccl.hpp>
#include <tandem/event.hpp>
#include <thread>

#include "islands/division.hpp"

namespace tandem::detail {

/// The vendor's number of a type; empty: the library has none (of that version).
std::optional<int> vendor_type(data_type type, int version) noexcept;
/// The vendor's number of an operation that combines two operands as Tandem does; average and
/// premultiplied sums are none. Nor are minimum and maximum of floating point, where the libraries
/// take the other operand where one is NaN, which hides it, and promise nothing of zeros.
std::optional<int> vendor_op(reduce_op op, data_type type) noexcept;

/// The device is the calling thread's, as libraries expect it.
class device_entered {
 public:
  explicit device_entered(accelerator& of) : of_(of) { of_.enter(); }
  ~device_entered() { of_.leave(); }
  device_entered(const device_entered&) = delete;
  device_entered& operator=(const device_entered&) = delete;

 private:
  accelerator& of_;
};

/// One communicator of a vendor's library with a stream of its own, on which its calls are done in
/// order. All ranks make the same calls in the same order; `vendor_calls` makes many as one.
class vendor_group {
 public:
  vendor_group(accelerator& device, const nccl& lib, int rank, int size);
  ~vendor_group();
  vendor_group(const vendor_group&) = delete;
  vendor_group& operator=(const vendor_group&) = delete;

  /// Before all else every rank of `inside` calls it. The library's blocking start is made on a
  /// thread of its own, which is left to itself where the group is given up meanwhile.
  /// @par Errors `device_failed`, with the library's words; why it was given up.
  asio::awaitable<void> start(communicator& inside);

  accelerator::stream stream() const noexcept { return stream_.get(); }

  /// A rank is gone: what is on the stream ends, and every call from now on fails so.
  void give_up(const error& why);
  /// Throws why, if it has. To be asked when the stream has come as far as it was waited for.
  void check_alive() const;

  /// Segment k of `count` elements, cut for `places`, comes combined to `into` of rank k, which may
  /// be its place in `from`; others' `into` is ignored.
  void reduce_segments(const std::byte* from, std::byte* into, std::size_t count,
                       std::size_t element_bytes, int places, int type, int op);
  /// And from rank k to all, in place.
  void spread_segments(std::byte* data, std::size_t count, std::size_t element_bytes, int places,
                       int type);
  /// Segment k of the root's data to rank k.
  void deal_segments(std::byte* data, std::size_t count, std::size_t element_bytes, int places,
                     int type, int root);
  /// Segment k from `part` of rank k to its place in the root's data; the root's own is there.
  void collect_segments(const std::byte* part, std::byte* data, std::size_t count,
                        std::size_t element_bytes, int places, int type, int root);
  /// In place.
  void all_reduce(std::byte* data, std::size_t count, int type, int op);
  /// Block k of what all bring comes combined to `mine` of rank k.
  void reduce_scatter(const std::byte* all, std::byte* mine, std::size_t count, int type, int op);
  void all_gather(const std::byte* mine, std::byte* all, std::size_t count, int type);
  /// A sum of what each rank brings times its own factor; given back by `free_op`.
  int make_factor(double factor, data_type type, int vendor_type);
  void free_op(int op) noexcept;

 private:
  friend class vendor_calls;
  class wait_for_start;
  void must(nc::result said, const char* call) const;

  accelerator& device_;
  const nccl& lib_;
  const int rank_, size_;
  device_stream stream_;
  nc::comm comm_ = nullptr;
  std::optional<error> lost_;
  event* starting_ = nullptr;  // what waits for the start
  std::thread ending_;         // of what was given up
};

/// Calls that the library starts as one, on the group's stream, at `end`. The thread is the
/// device's meanwhile: no coroutine waits while there is one. Roots and peers are ranks of the
/// group, counts of elements.
/// @par Errors `device_failed`, or why the group was given up; nothing is started then.
class vendor_calls {
 public:
  explicit vendor_calls(const vendor_group& by);
  ~vendor_calls();
  vendor_calls(const vendor_calls&) = delete;
  vendor_calls& operator=(const vendor_calls&) = delete;

  /// `into` is ignored but at the root.
  void reduce(const std::byte* from, std::byte* into, std::size_t count, int type, int op,
              int root);
  /// `from` is ignored but at the root.
  void broadcast(const std::byte* from, std::byte* into, std::size_t count, int type, int root);
  void send(const std::byte* from, std::size_t count, int type, int to);
  void recv(std::byte* into, std::size_t count, int type, int from);
  void end();

 private:
  const vendor_group& by_;
  const device_entered on_;
  bool ended_ = false;
};

}  // namespace tandem::detail
