// Sending frames and the payloads of the second flow.
#include <cstring>

#include "devices/flows.hpp"
#include "devices/link.hpp"

namespace tandem::devices {
namespace {

// Frames in flight on the inner channel, and of them payloads straight from views: enough to keep
// the wire busy, and few enough that a cancelled send soon completes.
constexpr std::size_t most_departures = 16;
constexpr std::size_t most_payloads_in_place = 4;

/// The peer discarded the payload.
bool was_dropped(const operation& op) noexcept {
  return op.result == errc::message_truncated;
}

}  // namespace

departure::departure(link& in, std::size_t words_bytes)
    : of(in), words(std::make_unique<std::byte[]>(words_bytes)) {
  for (operation* each : {&header, &payload}) {
    each->what = operation::kind::send;
    each->owner = this;
    each->destroy = [](operation& op) noexcept {
      static_cast<departure*>(op.owner)->of.destroyed();
    };
  }
  header.flow = frame_flow;
  payload.flow = payload_flow;
  header.complete = [](operation& op) {
    auto& d = *static_cast<departure*>(op.owner);
    const auto keep = d.of.came_back();
    d.of.header_over(d);
    keep->settle();
  };
  payload.complete = [](operation& op) {
    auto& d = *static_cast<departure*>(op.owner);
    const auto keep = d.of.came_back();
    d.of.payload_over(d);
    keep->settle();
  };
  staged.owner = this;
  staged.done = [](device_wait& wait, const std::shared_ptr<const error>& why) {
    auto& d = *static_cast<departure*>(wait.owner);
    const auto keep = d.of.came_back();
    d.of.stage_over(d, why);
    keep->settle();
  };
  staged.destroy = [](device_wait& wait) noexcept {
    auto& d = *static_cast<departure*>(wait.owner);
    d.by->finish();
    d.of.destroyed();
  };
}

departure& link::take_departure() {
  if (free_departures_.empty()) {
    departures_.push_back(
        std::make_unique<departure>(*this, protocol::frame_bytes + inside_bytes_));
    free_departures_.push_back(departures_.back().get());
  }
  departure& d = *free_departures_.back();
  free_departures_.pop_back();
  return d;
}

void link::flush_frames() {
  while (is_agreed_ && !session_.is_over()) {
    if (!has_one_) {
      if (!session_.may_have_next()) return;
      if (free_departures_.empty() && departures_.size() == most_departures) return;
      if (!session_.next(one_)) return;
      has_one_ = true;
    }
    if (!depart()) return;
    has_one_ = false;
  }
}

carriage link::how_to_carry(const protocol::outgoing& out) {
  if (out.payload.bytes == 0) return carriage::inside;
  if (can_be_placed(out)) return carriage::placed;
  if (can_be_read(out)) return carriage::reference;
  if (can_be_shared(out)) return carriage::shared;
  const bool is_host = out.payload.kind == memory_kind::host;
  return is_host && out.payload.bytes <= inside_bytes_ ? carriage::inside : carriage::message;
}

/// Whether NICs can access the view, and it is long enough: shorter ones are eager, from host
/// memory.
/// @par Cost  a new allocation is registered, which may take some milliseconds.
bool link::is_reached(const const_view& view) {
  if (view.bytes <= session_.agreed().eager_bytes || !is_over_nics()) return false;
  if (view.kind == memory_kind::host) return inner_->reaches(view);
  try {
    nics_->add(copiers_->of(view).of(), view);
  } catch (const error&) {
    return false;  // staging reports the error
  }
  const bool found = inner_->reaches(view);
  goes_by_nics_ = goes_by_nics_ || found;
  return found;
}

/// True also if the memory cannot be allocated: then the payload fails instead of waiting.
bool link::has_room(carriage how, bool by_nics, departure& d) {
  d.by = nullptr;
  d.slot = nullptr;
  d.failure.reset();
  if (how == carriage::inside) return true;
  const bool is_staged = one_.payload.kind != memory_kind::host && !by_nics;
  if (!is_staged) return payloads_in_place_ < most_payloads_in_place;
  try {
    d.by = &copiers_->of(one_.payload);
    d.slot = staging_out_.take(d.by->of(), one_.payload.bytes);
    return d.slot != nullptr;
  } catch (const error& why) {
    d.failure = why;
    return true;
  }
}

/// Sends the current frame, with its payload or before it. False: no room yet.
bool link::depart() {
  // A write grant is sent in one message with the accept that follows it.
  if (one_.header.type == protocol::frame_type::grant && inside_bytes_ >= protocol::frame_bytes) {
    protocol::encode(one_.header, grant_.emplace());
    return true;
  }
  const carriage how = how_to_carry(one_);
  if (how == carriage::placed) return place();
  if (how == carriage::reference) return refer();
  if (how == carriage::shared) return stage_shared();
  const bool by_nics = how == carriage::message && is_reached(one_.payload);
  departure& d = take_departure();
  if (!has_room(how, by_nics, d)) {
    free_departures_.push_back(&d);
    return false;
  }
  d.out = one_;
  d.has_left = true;
  d.parts = how == carriage::inside ? 1 : 2;
  protocol::frame f = one_.header;
  if (how == carriage::message) f.flags |= by_message;
  if (by_nics) f.flags |= by_nic;
  std::size_t bytes = 0;
  const auto put = [&d, &bytes](const protocol::wire_frame& words) {
    std::memcpy(d.words.get() + bytes, words.data(), words.size());
    bytes += words.size();
  };
  if (grant_ && f.type == protocol::frame_type::accept) {
    put(*grant_);
    grant_.reset();
  }
  protocol::wire_frame words;
  protocol::encode(f, words);
  put(words);
  if (how == carriage::inside && one_.payload.bytes > 0) {
    std::memcpy(d.words.get() + bytes, one_.payload.data, one_.payload.bytes);
    bytes += one_.payload.bytes;
  }
  d.header.view = {d.words.get(), bytes};
  if (how == carriage::message) {
    d.next = nullptr;
    (first_payload_ == nullptr ? first_payload_ : last_payload_->next) = &d;
    last_payload_ = &d;
    stage(d);
  }
  if (start_inner(d.header)) header_over(d);
  if (how == carriage::message) send_payloads();
  return true;
}

void link::stage(departure& d) {
  d.is_ready = true;
  if (d.failure) return;
  session_.pin(*d.out.op);
  if (d.by == nullptr) {
    ++payloads_in_place_;
    return;
  }
  try {
    d.by->copy(copier::way::to_host, d.slot, d.out.payload.data, d.out.payload.bytes, d.staged);
  } catch (const error& why) {
    d.failure = why;
    session_.unpin(*d.out.op);
    return;
  }
  d.is_ready = false;
  went_out();
}

void link::stage_over(departure& d, const std::shared_ptr<const error>& failure) {
  if (failure) d.failure = *failure;
  d.is_ready = true;
  session_.unpin(*d.out.op);
  send_payloads();
}

/// In the order of their frames, in which the peer posts its receives.
void link::send_payloads() {
  while (first_payload_ != nullptr && first_payload_->is_ready) {
    departure& d = *first_payload_;
    first_payload_ = d.next;
    d.payload.view = {};
    if (!d.failure) {
      const const_view& from = d.out.payload;
      d.payload.view = {const_cast<void*>(from.data), from.bytes, from.kind, from.device};
      if (d.by != nullptr) d.payload.view = {d.slot, from.bytes};
    }
    if (session_.is_over()) {
      d.payload.result = errc::channel_closed;
      payload_over(d);
    } else if (start_inner(d.payload)) {
      payload_over(d);
    }
  }
}

void link::release_staging(departure& d) noexcept {
  if (d.slot != nullptr) staging_out_.give_back(d.by->of().kind(), d.slot);
  d.slot = nullptr;
}

void link::header_over(departure& d) {
  if (d.header.result) {
    d.has_left = false;
    inner_failed(d.header);
  }
  part_over(d);
}

void link::payload_over(departure& d) {
  release_staging(d);
  if (d.by == nullptr && !d.failure) {
    --payloads_in_place_;
    session_.unpin(*d.out.op);
  }
  if (d.payload.result && !was_dropped(d.payload)) {
    d.has_left = false;
    if (!session_.is_over()) inner_failed(d.payload);
  }
  part_over(d);
}

void link::part_over(departure& d) {
  if (--d.parts > 0) return;
  // A session that is over has completed its operations itself.
  if (!session_.is_over() && d.has_left) {
    if (d.failure) {
      session_.spoil(d.out, *d.failure);
    } else {
      session_.sent(d.out);
    }
  }
  d.out = {};
  free_departures_.push_back(&d);
}

}  // namespace tandem::devices
