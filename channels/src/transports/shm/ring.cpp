#include "transports/shm/ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tandem::shm {
namespace {

constexpr std::size_t padded(std::size_t bytes) noexcept {
  return (bytes + record_bytes - 1) / record_bytes * record_bytes;
}

/// Copies one piece of a payload of `payload_bytes`. Short payloads are copied in blocks: for
/// longer copies the C library uses code that starts more slowly (13 % of half a round trip of 4
/// KiB, 5 % of one of 64 KiB, measured on an AMD EPYC) and pays off where the target is in no
/// cache.
void copy_out(std::byte* to, const std::byte* from, std::size_t bytes,
              std::size_t payload_bytes) noexcept {
  constexpr std::size_t block_bytes = 1024, max_blockwise_bytes = 256 * 1024;
  for (; bytes > block_bytes && payload_bytes <= max_blockwise_bytes; bytes -= block_bytes) {
    std::memcpy(to, from, block_bytes);
    to += block_bytes;
    from += block_bytes;
  }
  std::memcpy(to, from, bytes);
}

}  // namespace

record& ring_writer::at(std::uint64_t position) const noexcept {
  return *reinterpret_cast<record*>(ring_.data + (position & (ring_.bytes - 1)));
}

/// Room for `bytes` and the zeroed `ready` word of the next record.
bool ring_writer::has_room(std::size_t bytes) noexcept {
  const std::uint64_t wanted = tail_ + bytes + record_bytes;
  if (wanted - known_consumed_ <= ring_.bytes) return true;
  const std::uint64_t consumed = consumed_.load(std::memory_order_acquire);
  if (consumed < known_consumed_ || consumed > tail_) {
    broken_ = true;
    return false;
  }
  known_consumed_ = consumed;
  return wanted - known_consumed_ <= ring_.bytes;
}

bool ring_writer::has_room_for(std::size_t payload_bytes) noexcept {
  const bool is_inside = payload_bytes <= record::inline_bytes;
  return has_room(record_bytes + (is_inside ? 0 : padded(payload_bytes)));
}

void ring_writer::fill(record& to, const protocol::frame& f, transfer_method how,
                       std::uint32_t here) const noexcept {
  to.type = static_cast<std::uint8_t>(f.type);
  to.how = static_cast<std::uint8_t>(how);
  to.flags = f.flags;
  to.flow = f.flow;
  to.credit = f.credit;
  to.message_id = f.message_id;
  to.offset = f.offset;
  to.payload_bytes = f.payload_bytes;
  to.here_bytes = here;
  to.history = f.signature.history;
  if (f.type == protocol::frame_type::eager) {
    to.offset = f.signature.call;
  } else if (protocol::carries_note(f.type)) {
    protocol::put<std::uint64_t>(to.inline_data, f.signature.call);
  }
}

/// Zeroes the `ready` word of the next record, before the first store to this one: stores become
/// visible in order, and waiting for that line between them would let the polling reader take this
/// line half written, to be fetched back once more.
void ring_writer::clear_after(std::size_t bytes) noexcept {
  at(tail_ + bytes).ready.store(0, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void ring_writer::publish(record& what, std::size_t bytes) noexcept {
  tail_ += bytes;
  what.ready.store(record::is_ready, std::memory_order_release);
  // The lines that the next message of this length writes: the reader's core may still have them,
  // and fetching them then would delay the store that the reader polls for.
  __builtin_prefetch(&at(tail_ + bytes), 1);
  if (bytes > record_bytes) __builtin_prefetch(&at(tail_ + record_bytes), 1);
}

bool ring_writer::write(const protocol::frame& f, const void* payload) {
  if (!has_room(record_bytes)) return false;
  clear_after(record_bytes);
  record& to = at(tail_);
  fill(to, f, transfer_method::inline_data, f.payload_bytes);
  if (f.payload_bytes > 0) std::memcpy(to.inline_data, payload, f.payload_bytes);
  publish(to, record_bytes);
  return true;
}

bool ring_writer::write_reference(const protocol::frame& f, transfer_method how, std::uint32_t slot,
                                  std::uint64_t address_or_offset) {
  if (!has_room(record_bytes)) return false;
  clear_after(record_bytes);
  record& to = at(tail_);
  fill(to, f, how, 0);
  protocol::put<std::uint64_t>(to.inline_data, address_or_offset);
  protocol::put<std::uint32_t>(to.inline_data + sizeof address_or_offset, slot);
  publish(to, record_bytes);
  return true;
}

bool ring_writer::write_pieces(const protocol::frame& f, const std::byte* payload,
                               std::uint64_t& done) {
  while (done < f.payload_bytes) {
    const std::size_t here = std::min<std::size_t>(piece_bytes, f.payload_bytes - done);
    if (!has_room(record_bytes + padded(here))) return false;
    clear_after(record_bytes + padded(here));
    const std::size_t start = (tail_ + record_bytes) & (ring_.bytes - 1);
    const std::size_t first = std::min(here, ring_.bytes - start);
    std::memcpy(ring_.data + start, payload + done, first);
    if (here > first) std::memcpy(ring_.data, payload + done + first, here - first);
    // The line that the reader polls is written last, as a whole.
    record& to = at(tail_);
    fill(to, f, done == 0 ? transfer_method::first_piece : transfer_method::more,
         static_cast<std::uint32_t>(here));
    done += here;
    publish(to, record_bytes + padded(here));
  }
  return true;
}

ring_reader::outcome ring_reader::next(view& out, std::string& why) const {
  const record& from = next_record();
  const std::uint32_t ready = from.ready.load(std::memory_order_acquire);
  if (ready == 0) return outcome::none;
  if (ready != record::is_ready) {
    why = fmt::format("a record starts with {:#010x}", ready);
    return outcome::protocol_violation;
  }
  struct {
    std::uint8_t type, how;
  } kind;
  std::memcpy(&kind, &from.type, sizeof kind);
  protocol::frame& f = out.header;
  f = {};
  std::memcpy(&f.flags, &from.flags, sizeof f.flags);
  std::memcpy(&f.flow, &from.flow, sizeof f.flow);
  std::memcpy(&f.credit, &from.credit, sizeof f.credit);
  std::memcpy(&f.message_id, &from.message_id, sizeof f.message_id);
  std::memcpy(&f.offset, &from.offset, sizeof f.offset);
  std::memcpy(&f.payload_bytes, &from.payload_bytes, sizeof f.payload_bytes);
  std::memcpy(&out.here_bytes, &from.here_bytes, sizeof out.here_bytes);
  std::memcpy(&f.signature.history, &from.history, sizeof f.signature.history);
  std::memcpy(out.inline_data, from.inline_data, sizeof out.inline_data);
  // Nothing below reads the ring again.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (kind.type < 1 || kind.type > static_cast<std::uint8_t>(protocol::frame_type::close)) {
    why = fmt::format("a record of unknown type {}", kind.type);
    return outcome::protocol_violation;
  }
  f.type = static_cast<protocol::frame_type>(kind.type);
  out.how = static_cast<transfer_method>(kind.how);
  if (f.type == protocol::frame_type::eager) {
    f.signature.call = std::exchange(f.offset, 0);
  } else if (protocol::carries_note(f.type)) {
    f.signature.call = protocol::take<std::uint64_t>(out.inline_data);
  }
  if (f.payload_bytes > 0 && !protocol::carries_payload(f.type)) {
    why = fmt::format("a record of type {} with {} payload bytes", kind.type, f.payload_bytes);
    return outcome::protocol_violation;
  }
  bool fits = false;
  switch (out.how) {
    case transfer_method::inline_data:
      fits = out.here_bytes == f.payload_bytes && f.payload_bytes <= record::inline_bytes;
      break;
    case transfer_method::first_piece:
    case transfer_method::more:
      fits =
          out.here_bytes > 0 && out.here_bytes <= piece_bytes && out.here_bytes <= f.payload_bytes;
      break;
    case transfer_method::reference:
    case transfer_method::mapped:
      fits = out.here_bytes == 0 && f.payload_bytes > 0;
      break;
  }
  if (fits) return outcome::some;
  why = fmt::format("a record with {} of {} bytes, transfer method {}", out.here_bytes,
                    f.payload_bytes, kind.how);
  return outcome::protocol_violation;
}

void ring_reader::copy(const view& of, std::byte* to) const noexcept {
  const std::size_t start = (head_ + record_bytes) & (ring_.bytes - 1);
  const std::size_t first = std::min<std::size_t>(of.here_bytes, ring_.bytes - start);
  const std::size_t whole = of.header.payload_bytes;
  copy_out(to, ring_.data + start, first, whole);
  if (of.here_bytes > first) copy_out(to + first, ring_.data, of.here_bytes - first, whole);
}

/// Publishes the freed room rarely, as each store costs both ends a cache miss: less than a quarter
/// of the ring is unpublished, and a record needs less than the rest.
bool ring_reader::consume(const view& of) noexcept {
  const bool is_behind = of.how == transfer_method::first_piece || of.how == transfer_method::more;
  head_ += record_bytes + (is_behind ? padded(of.here_bytes) : 0);
  if (head_ - published_ < ring_.bytes / 4) return false;
  published_ = head_;
  consumed_.store(head_, std::memory_order_release);
  return true;
}

}  // namespace tandem::shm
