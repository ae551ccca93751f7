#pragma once

#include <memory>
#include <optional>
#include <tandem/accelerator.hpp>
#include <tandem/collectives/communicator.hpp>
#include <tandem/collectives/reduction.hpp>
#include <tandem/detail/nccl.hpp>
#include <thread>

#include "islands/division.hpp"

namespace tandem::detail {

/// The vendor's number of a type; empty: the library has none (of that version).
std::optional<int> vendor_type(data_type type, int version) noexcept;
/// Of an operation that combines two operands; average and premultiplied sums are none.
std::optional<int> vendor_op(reduce_op op) noexcept;

/// One communicator of a vendor's library with a stream of its own, on which its calls are done in
/// order. All ranks make the same calls in the same order.
class vendor_group {
 public:
  /// Every rank of `inside` calls it. The library's blocking start is made on a thread of its own.
  /// @par Errors `device_failed`, with the library's words.
  static asio::awaitable<std::unique_ptr<vendor_group>> make(communicator& inside,
                                                             accelerator& device, const nccl& lib);
  ~vendor_group();
  vendor_group(const vendor_group&) = delete;
  vendor_group& operator=(const vendor_group&) = delete;

  accelerator::stream stream() const noexcept { return stream_.get(); }

  /// A rank is gone: what is on the stream ends, and every call from now on fails so.
  void give_up(const error& why);
  /// Throws why, if it has. To be asked when the stream has come as far as it was waited for.
  void check_alive() const;

  /// Segment k of `count` elements, cut for `places`, comes combined to rank k, in place.
  void reduce_segments(std::byte* data, std::size_t count, std::size_t element_bytes, int places,
                       int type, int op);
  /// And from rank k to all.
  void spread_segments(std::byte* data, std::size_t count, std::size_t element_bytes, int places,
                       int type);
  /// Segment k of the root's data to rank k.
  void deal_segments(std::byte* data, std::size_t count, std::size_t element_bytes, int places,
                     int type, int root);
  /// A sum of what each rank brings times its own factor; given back by `free_op`.
  int make_factor(double factor, data_type type, int vendor_type);
  void free_op(int op) noexcept;

 private:
  vendor_group(accelerator& device, const nccl& lib, int rank, int size);
  void must(nc::result said, const char* call) const;

  accelerator& device_;
  const nccl& lib_;
  const int rank_, size_;
  device_stream stream_;
  nc::comm comm_ = nullptr;
  std::optional<error> lost_;
  std::thread ending_;  // of what was given up
};

}  // namespace tandem::detail
