#include "shm/frames_in.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <tandem/detail/copy.hpp>

namespace tandem::shm {

void frames_in::probe() {
  if (has_probed_ || theirs_.is_introduced.load(std::memory_order_acquire) == 0) return;
  has_probed_ = true;
  const bool reads =
      peer_.can_read(theirs_) && (copies_ == single_copy::on || peer_.is_worth_reading(theirs_));
  mine_.reads_references.store(reads ? 1 : 0, std::memory_order_relaxed);
}

frames_in::outcome frames_in::read_one() {
  ring_reader::view r;
  switch (ring_.next(r, why_)) {
    case ring_reader::outcome::none:
      return outcome::drained;
    case ring_reader::outcome::broken:
      return outcome::broken;
    case ring_reader::outcome::some:
      break;
  }
  if (!has_probed_) probe();
  buffers_.take_offers();
  const outcome came = take(r);
  if (ring_.consume(r)) has_progress_ = true;
  return came;
}

frames_in::outcome frames_in::wrong(std::string why) {
  why_ = std::move(why);
  return outcome::broken;
}

frames_in::outcome frames_in::take(const ring_reader::view& r) {
  if (is_landing_) {
    const std::size_t remaining = landing_.header.payload_bytes - landing_.received;
    if (r.how != carriage::more || r.here_bytes > remaining) {
      return wrong(fmt::format("{} bytes instead of the rest of a payload of {}", r.here_bytes,
                               landing_.header.payload_bytes));
    }
    land(r);
    return outcome::more;
  }
  if (r.how == carriage::more) return wrong("a continuation without a payload in progress");
  if (!protocol::carries_payload(r.header.type)) return take_plain(r.header);
  if (take_whole(r)) return outcome::more;
  if (!session_.begin(r.header, landing_)) return wrong(session_.violation());
  if (r.how == carriage::reference || r.how == carriage::mapped) return take_reference(r);
  is_landing_ = true;
  land(r);
  return outcome::more;
}

/// Fast path: a short message whose receive is already posted.
bool frames_in::take_whole(const ring_reader::view& r) {
  if (r.header.type != protocol::frame_type::eager || r.here_bytes != r.header.payload_bytes) {
    return false;
  }
  const operation* const op = session_.receiver_of(r.header);
  if (op == nullptr) return false;
  copy(r, static_cast<std::byte*>(op->view.data));
  received_bytes_ += r.here_bytes;
  session_.arrived(r.header);
  return true;
}

void frames_in::copy(const ring_reader::view& r, std::byte* to) const noexcept {
  if (r.here_bytes == 0) return;
  if (r.how == carriage::inside) {
    std::memcpy(to, r.inside, r.here_bytes);
  } else {
    ring_.copy(r, to);
  }
}

void frames_in::land(const ring_reader::view& r) {
  if (landing_.target != nullptr) copy(r, landing_.target + landing_.received);
  landing_.received += r.here_bytes;
  received_bytes_ += r.here_bytes;
  if (landing_.received < landing_.header.payload_bytes) return;
  is_landing_ = false;
  session_.end(landing_);
}

/// Copies a payload that is not in the ring. Returns 0, or the errno.
int frames_in::fetch(const ring_reader::view& r) const noexcept {
  const std::size_t bytes = r.header.payload_bytes;
  if (r.how == carriage::reference) {
    return landing_.target == nullptr ? 0 : peer_.read(landing_.target, r.place(), bytes);
  }
  const std::byte* const from = buffers_.find(r.where(), r.place(), bytes);
  if (from == nullptr) return EFAULT;
  if (landing_.target != nullptr) {
    detail::copy_part(landing_.target, from, bytes, landing_.whole_bytes());
  }
  return 0;
}

/// The peer may reuse its memory once it has closed: the copy is valid only if the peer was still
/// open when all of it had been read.
frames_in::outcome frames_in::take_reference(const ring_reader::view& r) {
  const int failure = fetch(r);
  // A read-modify-write, unlike a load, is ordered after the copy and before a later store of the
  // peer.
  parting expected = parting::none;
  if (!theirs_.left.compare_exchange_strong(expected, parting::none, std::memory_order_acq_rel)) {
    session_.abandon(landing_);
    return outcome::parted;
  }
  if (failure == ESRCH) {
    session_.abandon(landing_);
    why_ = "its process has exited";
    return outcome::ended;
  }
  if (failure != 0) {
    session_.abandon(landing_);
    return wrong(fmt::format("{} bytes of its memory cannot be read: {}", r.header.payload_bytes,
                             error_code(failure, boost::system::system_category()).message()));
  }
  landing_.received = r.header.payload_bytes;
  received_bytes_ += r.header.payload_bytes;
  session_.end(landing_);
  mine_.read.store(++read_, std::memory_order_release);
  has_progress_ = true;
  return outcome::more;
}

void frames_in::abandon_payload() noexcept {
  if (std::exchange(is_landing_, false)) session_.abandon(landing_);
}

frames_in::outcome frames_in::take_plain(const protocol::frame& f) {
  if (f.type == protocol::frame_type::goodbye) {
    return wrong("a close frame in the ring");
  }
  if (!session_.handle(f)) return wrong(session_.violation());
  return outcome::more;
}

}  // namespace tandem::shm
