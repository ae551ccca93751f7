#include "transports/shm/frames_out.hpp"

namespace tandem::shm {
namespace {

/// Shorter eager messages go through the ring: a system call costs more than the second copy. Out
/// of a mapped buffer, without a system call, half a ping-pong of 32 KiB takes 1.0 us, through the
/// ring 1.8 us; shorter ones were not measured.
constexpr std::size_t min_reference_bytes = 32 * 1024;

bool is_long(const protocol::outgoing_frame& out) noexcept {
  return out.payload.bytes >= min_reference_bytes ||
         (out.header.type == protocol::frame_type::data && out.payload.bytes > 0);
}

}  // namespace

bool frames_out::may_refer() const noexcept {
  return may_refer_ && remote_.reads_references.load(std::memory_order_relaxed) == 1;
}

bool frames_out::has_room_for_reference() const noexcept {
  return references_sent_ == references_read_ ||
         (references_sent_ - references_read_ < max_references &&
          referred_bytes_ + current_.payload.bytes <= max_referred_bytes);
}

/// Short messages go through the ring even if their buffer is mapped, and complete at once. So do
/// those whose view is overwritten right afterwards (`operation::rewritten`).
void frames_out::choose_method() {
  method_ =
      is_long(current_) && may_refer() ? transfer_method::reference : transfer_method::first_piece;
  if (!is_long(current_) || current_.op->rewritten) return;
  const std::optional<offered_buffers::buffer_location> buffer_location =
      buffers_.find(current_.payload.data, current_.payload.bytes);
  if (!buffer_location) return;
  method_ = transfer_method::mapped;
  location_ = *buffer_location;
}

bool frames_out::write_all() {
  bool wrote = false;
  for (;;) {
    if (!has_current_) {
      if (!session_.may_have_next() || !session_.next(current_)) break;
      has_current_ = true;
      done_ = 0;
      choose_method();
    }
    const std::uint64_t before = ring_.written_bytes();
    const bool whole = write_current();
    wrote = wrote || ring_.written_bytes() != before;
    if (!whole) break;
    has_current_ = false;
    if (method_ == transfer_method::first_piece) session_.sent(current_);
  }
  return wrote;
}

bool frames_out::try_send_eager(operation& op) {
  if (op.what != operation::kind::send || op.view.bytes > piece_bytes || has_current_ ||
      !ring_.has_room_for(op.view.bytes)) {
    return false;
  }
  protocol::frame header;
  if (!session_.try_send_eager(op, header)) return false;
  done_ = 0;
  return write_payload(header, op.view.data);
}

bool frames_out::write_payload(const protocol::frame& f, const void* payload) {
  if (f.payload_bytes <= record::inline_bytes) {
    return ring_.write(f, payload);
  }
  return ring_.write_pieces(f, static_cast<const std::byte*>(payload), done_);
}

/// True: all of the current frame is in the ring.
bool frames_out::write_current() {
  const protocol::frame& f = current_.header;
  if (method_ != transfer_method::first_piece) {
    const bool is_mapped = method_ == transfer_method::mapped;
    const std::uint64_t address_or_offset =
        is_mapped ? location_.offset : reinterpret_cast<std::uintptr_t>(current_.payload.data);
    if (!has_room_for_reference() ||
        !ring_.write_reference(f, method_, is_mapped ? location_.slot : 0, address_or_offset)) {
      return false;
    }
    references_[references_sent_++ % max_references] = current_;
    referred_bytes_ += current_.payload.bytes;
    return true;
  }
  return write_payload(f, current_.payload.data);
}

bool frames_out::has_acknowledgements() const noexcept {
  return references_sent_ != references_read_ &&
         remote_.read.load(std::memory_order_relaxed) != references_read_;
}

bool frames_out::take_acknowledgements() {
  if (!has_acknowledgements()) return false;
  const std::uint64_t read = remote_.read.load(std::memory_order_acquire);
  if (read - references_read_ > references_sent_ - references_read_) {
    broken_ = true;
    return false;
  }
  while (references_read_ != read) {
    const protocol::outgoing_frame& first = references_[references_read_++ % max_references];
    referred_bytes_ -= first.payload.bytes;
    session_.sent(first);
  }
  return true;
}

void frames_out::drop() noexcept {
  has_current_ = false;
  references_read_ = references_sent_;
  referred_bytes_ = 0;
}

}  // namespace tandem::shm
