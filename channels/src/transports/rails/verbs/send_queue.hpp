#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transports/rails/verbs/credits.hpp"

namespace tandem::verbs {

/// The requests posted to the send queue of a data pair, until they complete, without I/O. Only
/// some are signalled; the completion of one covers all before it.
class send_queue {
 public:
  enum class payload_kind : std::uint8_t { record, chunk, bytes };
  struct request {
    payload_kind of = payload_kind::record;
    bool ends_placement = false;
    std::uint64_t token = 0;
    std::uint32_t bytes = 0;  ///< of a placement
  };

  explicit send_queue(const queue_depths& has)
      : has_(has), outgoing_(std::bit_ceil(depth(has))) {}  // for numbers modulo 2^32
  /// Its depth: as many placements as chunks, and one entry for a flush.
  static std::uint32_t depth(const queue_depths& has) noexcept {
    return has.records + 2 * has.chunks + 1;
  }

  bool has_room_for_record() const noexcept { return records_in_flight_ < has_.records; }
  bool has_room_for_chunk() const noexcept { return chunks_in_flight_ < has_.chunks; }
  /// For an RDMA write of so many bytes, and its record. Limited to the bytes of the slots, but at
  /// least one placement: urgent data waits behind it.
  bool has_room_for_placement(std::size_t bytes) const noexcept {
    const std::uint64_t max_bytes = std::uint64_t{has_.chunks} * has_.chunk_bytes;
    return has_room_for_record() && placed_in_flight_ < has_.chunks &&
           (placed_in_flight_ == 0 || placed_bytes_in_flight_ + bytes <= max_bytes);
  }
  /// The slot of this end to copy to. @pre there is room
  std::uint32_t next_record_slot() noexcept { return records_out_++ % has_.records; }
  std::uint32_t next_chunk_slot() noexcept { return chunks_out_++ % has_.chunks; }

  /// The number of the next request.
  std::uint32_t next_number() const noexcept { return posted_ + 1; }
  /// Entries of a send queue are freed only by a later signalled completion.
  bool must_signal(const request& what) const noexcept {
    return what.of == payload_kind::chunk || what.ends_placement ||
           unsignalled_ + 1 >= max_unsignalled;
  }
  void posted(const request& what, bool is_signalled) noexcept {
    ++posted_;
    outgoing_[posted_ % outgoing_.size()] = what;
    ++in_flight(what.of);
    placed_bytes_in_flight_ += what.bytes;
    unsignalled_ = is_signalled ? 0 : unsignalled_ + 1;
  }
  /// The last requests are unsignalled: a flush is needed to see their completion.
  bool needs_flush() const noexcept { return unsignalled_ > 0; }

  /// All requests up to this number have completed.
  void retire(std::uint32_t number) {
    while (static_cast<std::int32_t>(number - retired_) > 0) {
      ++retired_;
      const request& what = outgoing_[retired_ % outgoing_.size()];
      --in_flight(what.of);
      placed_bytes_in_flight_ -= what.bytes;
      if (what.ends_placement) ended_.push_back(what.token);
    }
  }
  bool is_empty() const noexcept { return retired_ == posted_; }
  /// Tokens of completed placements, which the caller takes out.
  std::vector<std::uint64_t>& ended_placements() noexcept { return ended_; }

 private:
  /// Maximum number of unsignalled requests in a row.
  static constexpr std::uint32_t max_unsignalled = 8;

  std::uint32_t& in_flight(payload_kind of) noexcept {
    if (of == payload_kind::record) return records_in_flight_;
    return of == payload_kind::chunk ? chunks_in_flight_ : placed_in_flight_;
  }

  const queue_depths has_;
  std::uint32_t posted_ = 0, retired_ = 0;  // ever
  std::vector<request> outgoing_;           // posted and not yet completed, by number
  std::vector<std::uint64_t> ended_;
  std::uint32_t unsignalled_ = 0;
  std::uint32_t records_out_ = 0, chunks_out_ = 0;  // ever
  std::uint32_t records_in_flight_ = 0, chunks_in_flight_ = 0, placed_in_flight_ = 0;
  std::uint64_t placed_bytes_in_flight_ = 0;
};

}  // namespace tandem::verbs
