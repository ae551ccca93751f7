#include "transports/shm/frames_in.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <tandem/detail/copy.hpp>
#include <tandem/detail/resources.hpp>

namespace tandem::shm {

void frames_in::probe() {
  if (has_probed_ || remote_.is_probe_published.load(std::memory_order_acquire) == 0) return;
  has_probed_ = true;
  const bool reads =
      peer_.can_read(remote_) && (copies_ == single_copy::on || peer_.is_worth_reading(remote_));
  local_.reads_references.store(reads ? 1 : 0, std::memory_order_relaxed);
}

frames_in::outcome frames_in::read_one() {
  ring_reader::view r;
  switch (ring_.next(r, why_)) {
    case ring_reader::outcome::none:
      return outcome::drained;
    case ring_reader::outcome::protocol_violation:
      return outcome::protocol_violation;
    case ring_reader::outcome::some:
      break;
  }
  if (!has_probed_) probe();
  buffers_.take_offers();
  const outcome came = take(r);
  if (ring_.consume(r)) has_progress_ = true;
  return came;
}

frames_in::outcome frames_in::reject(std::string why) {
  why_ = std::move(why);
  return outcome::protocol_violation;
}

frames_in::outcome frames_in::take(const ring_reader::view& r) {
  if (receiving_payload_) {
    const std::size_t remaining = payload_.header.payload_bytes - payload_.received;
    if (r.how != transfer_method::more || r.here_bytes > remaining) {
      return reject(fmt::format("{} bytes instead of the rest of a payload of {}", r.here_bytes,
                                payload_.header.payload_bytes));
    }
    receive_piece(r);
    return outcome::more;
  }
  if (r.how == transfer_method::more) return reject("a continuation without a payload in progress");
  if (!protocol::carries_payload(r.header.type)) return take_control_frame(r.header);
  if (take_eager(r)) return outcome::more;
  if (!session_.begin(r.header, payload_)) return reject(session_.violation());
  if (r.how == transfer_method::reference || r.how == transfer_method::mapped)
    return take_reference(r);
  receiving_payload_ = true;
  receive_piece(r);
  return outcome::more;
}

/// Fast path: a short message whose receive is already posted.
bool frames_in::take_eager(const ring_reader::view& r) {
  if (r.header.type != protocol::frame_type::eager || r.here_bytes != r.header.payload_bytes) {
    return false;
  }
  const operation* const op = session_.match_eager(r.header);
  if (op == nullptr) return false;
  copy(r, static_cast<std::byte*>(op->view.data));
  received_bytes_ += r.here_bytes;
  session_.arrived(r.header);
  return true;
}

void frames_in::copy(const ring_reader::view& r, std::byte* to) const noexcept {
  if (r.here_bytes == 0) return;
  if (r.how == transfer_method::inline_data) {
    std::memcpy(to, r.inline_data, r.here_bytes);
  } else {
    ring_.copy(r, to);
  }
}

void frames_in::receive_piece(const ring_reader::view& r) {
  if (payload_.target != nullptr) copy(r, payload_.target + payload_.received);
  payload_.received += r.here_bytes;
  received_bytes_ += r.here_bytes;
  if (payload_.received < payload_.header.payload_bytes) return;
  receiving_payload_ = false;
  session_.end(payload_);
}

/// Copies a payload that is not in the ring. Returns 0, or the errno.
int frames_in::fetch(const ring_reader::view& r) const noexcept {
  const std::size_t bytes = r.header.payload_bytes;
  if (r.how == transfer_method::reference) {
    return payload_.target == nullptr ? 0
                                      : peer_.read(payload_.target, r.address_or_offset(), bytes);
  }
  const std::byte* const from = buffers_.find(r.slot(), r.address_or_offset(), bytes);
  if (from == nullptr) return EFAULT;
  if (payload_.target != nullptr) {
    detail::copy_part(payload_.target, from, bytes, payload_.message_bytes());
  }
  return 0;
}

/// The peer may reuse its memory once it has closed: the copy is valid only if the peer was still
/// open when all of it had been read.
frames_in::outcome frames_in::take_reference(const ring_reader::view& r) {
  const int failure = fetch(r);
  // A read-modify-write, unlike a load, is ordered after the copy and before a later store of the
  // peer.
  close_state expected = close_state::none;
  if (!remote_.closed_as.compare_exchange_strong(expected, close_state::none,
                                                 std::memory_order_acq_rel)) {
    session_.abandon(payload_);
    return outcome::peer_closed;
  }
  if (failure == ESRCH) {
    session_.abandon(payload_);
    why_ = "its process has exited";
    return outcome::ended;
  }
  if (failure != 0) {
    session_.abandon(payload_);
    return reject(fmt::format("{} bytes of its memory cannot be read: {}", r.header.payload_bytes,
                              detail::errno_text(failure)));
  }
  payload_.received = r.header.payload_bytes;
  received_bytes_ += r.header.payload_bytes;
  session_.end(payload_);
  local_.read.store(++references_read_, std::memory_order_release);
  has_progress_ = true;
  return outcome::more;
}

void frames_in::abandon_payload() noexcept {
  if (std::exchange(receiving_payload_, false)) session_.abandon(payload_);
}

frames_in::outcome frames_in::take_control_frame(const protocol::frame& f) {
  if (f.type == protocol::frame_type::close) {
    return reject("a close frame in the ring");
  }
  if (!session_.handle(f)) return reject(session_.violation());
  return outcome::more;
}

}  // namespace tandem::shm
