#include "shm/frames_out.hpp"

namespace tandem::shm {
namespace {

/// Shorter eager messages go through the ring: a system call costs more than the second copy. Out
/// of a mapped buffer, without a system call, half a ping-pong of 32 KiB takes 1.0 us, through the
/// ring 1.8 us; shorter ones were not measured.
constexpr std::size_t least_reference_bytes = 32 * 1024;

bool is_long(const protocol::outgoing& out) noexcept {
  return out.payload.bytes >= least_reference_bytes ||
         (out.header.type == protocol::frame_type::data && out.payload.bytes > 0);
}

}  // namespace

bool frames_out::may_refer() const noexcept {
  return may_refer_ && theirs_.reads_references.load(std::memory_order_relaxed) == 1;
}

bool frames_out::has_room_for_reference() const noexcept {
  return given_ == read_ || (given_ - read_ < most_references &&
                             referred_bytes_ + one_.payload.bytes <= most_referred_bytes);
}

/// Short messages go through the ring even if their buffer is mapped, and complete at once. So do
/// those whose view is overwritten right afterwards (`operation::rewritten`).
void frames_out::choose_way() {
  way_ = is_long(one_) && may_refer() ? carriage::reference : carriage::behind;
  if (!is_long(one_) || one_.op->rewritten) return;
  const std::optional<offered_buffers::spot> spot =
      buffers_.find(one_.payload.data, one_.payload.bytes);
  if (!spot) return;
  way_ = carriage::mapped;
  spot_ = *spot;
}

bool frames_out::write_all() {
  bool wrote = false;
  for (;;) {
    if (!has_one_) {
      if (!session_.may_have_next() || !session_.next(one_)) break;
      has_one_ = true;
      done_ = 0;
      choose_way();
    }
    const std::uint64_t before = ring_.written_bytes();
    const bool whole = write_one();
    wrote = wrote || ring_.written_bytes() != before;
    if (!whole) break;
    has_one_ = false;
    if (way_ == carriage::behind) session_.sent(one_);
  }
  return wrote;
}

bool frames_out::send_at_once(operation& op) {
  if (op.what != operation::kind::send || op.view.bytes > piece_bytes || has_one_ ||
      !ring_.has_room_for(op.view.bytes)) {
    return false;
  }
  protocol::frame header;
  if (!session_.leave_at_once(op, header)) return false;
  done_ = 0;
  return write_payload(header, op.view.data);
}

bool frames_out::write_payload(const protocol::frame& f, const void* payload) {
  if (f.payload_bytes <= record::inside_bytes) {
    return ring_.write(f, payload);
  }
  return ring_.write_pieces(f, static_cast<const std::byte*>(payload), done_);
}

/// True: all of the current frame is in the ring.
bool frames_out::write_one() {
  const protocol::frame& f = one_.header;
  if (way_ != carriage::behind) {
    const bool is_mapped = way_ == carriage::mapped;
    const std::uint64_t place =
        is_mapped ? spot_.offset : reinterpret_cast<std::uintptr_t>(one_.payload.data);
    if (!has_room_for_reference() || !ring_.refer(f, way_, is_mapped ? spot_.slot : 0, place)) {
      return false;
    }
    references_[given_++ % most_references] = one_;
    referred_bytes_ += one_.payload.bytes;
    return true;
  }
  return write_payload(f, one_.payload.data);
}

bool frames_out::has_acknowledgements() const noexcept {
  return given_ != read_ && theirs_.read.load(std::memory_order_relaxed) != read_;
}

bool frames_out::take_acknowledgements() {
  if (!has_acknowledgements()) return false;
  const std::uint64_t read = theirs_.read.load(std::memory_order_acquire);
  if (read - read_ > given_ - read_) {
    broken_ = true;
    return false;
  }
  while (read_ != read) {
    const protocol::outgoing& first = references_[read_++ % most_references];
    referred_bytes_ -= first.payload.bytes;
    session_.sent(first);
  }
  return true;
}

void frames_out::drop() noexcept {
  has_one_ = false;
  read_ = given_;
  referred_bytes_ = 0;
}

}  // namespace tandem::shm
