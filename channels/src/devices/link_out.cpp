// Sending frames and the payloads of the second flow.
#include <cstring>

#include "devices/link.hpp"

namespace tandem::devices {
namespace {

// Frames in flight on the inner channel, and of them payloads straight from views: enough to keep
// the wire busy, and few enough that a cancelled send soon completes.
constexpr std::size_t max_in_flight_frames = 16;
constexpr std::size_t max_payloads_in_place = 4;

/// The peer discarded the payload.
bool was_dropped(const operation& op) noexcept {
  return op.result == errc::message_truncated;
}

}  // namespace

in_flight_frame::in_flight_frame(link& in, std::size_t encoded_bytes)
    : of(in), encoded(std::make_unique<std::byte[]>(encoded_bytes)) {
  for (operation* each : {&header, &payload}) {
    each->what = operation::kind::send;
    each->owner = this;
    each->destroy = [](operation& op) noexcept {
      static_cast<in_flight_frame*>(op.owner)->of.destroyed();
    };
  }
  header.flow = frame_flow;
  payload.flow = payload_flow;
  header.complete = [](operation& op) {
    auto& d = *static_cast<in_flight_frame*>(op.owner);
    const auto keep = d.of.end_async();
    d.of.header_done(d);
    keep->flush_and_complete();
  };
  payload.complete = [](operation& op) {
    auto& d = *static_cast<in_flight_frame*>(op.owner);
    const auto keep = d.of.end_async();
    d.of.payload_done(d);
    keep->flush_and_complete();
  };
  staged.owner = this;
  staged.done = [](device_wait& wait, const std::shared_ptr<const error>& why) {
    auto& d = *static_cast<in_flight_frame*>(wait.owner);
    const auto keep = d.of.end_async();
    d.of.stage_done(d, why);
    keep->flush_and_complete();
  };
  staged.destroy = [](device_wait& wait) noexcept {
    auto& d = *static_cast<in_flight_frame*>(wait.owner);
    d.by->finish();
    d.of.destroyed();
  };
}

in_flight_frame& link::take_in_flight_frame() {
  if (free_in_flight_frames_.empty()) {
    in_flight_frames_.push_back(
        std::make_unique<in_flight_frame>(*this, protocol::frame_bytes + inline_bytes_));
    free_in_flight_frames_.push_back(in_flight_frames_.back().get());
  }
  in_flight_frame& d = *free_in_flight_frames_.back();
  free_in_flight_frames_.pop_back();
  return d;
}

void link::flush_frames() {
  while (is_agreed_ && !session_.is_over()) {
    if (!has_current_) {
      if (!session_.may_have_next()) return;
      if (free_in_flight_frames_.empty() && in_flight_frames_.size() == max_in_flight_frames)
        return;
      if (!session_.next(current_)) return;
      has_current_ = true;
    }
    if (!send_frame()) return;
    has_current_ = false;
  }
}

transfer_method link::choose_transfer(const protocol::outgoing_frame& out) {
  if (out.payload.bytes == 0) return transfer_method::inline_data;
  if (can_be_placed(out)) return transfer_method::placed;
  if (can_be_read(out)) return transfer_method::reference;
  if (can_be_shared(out)) return transfer_method::shared;
  const bool is_host = out.payload.kind == memory_kind::host;
  return is_host && out.payload.bytes <= inline_bytes_ ? transfer_method::inline_data
                                                       : transfer_method::message;
}

/// Whether NICs can access the view, and it is long enough: shorter ones are eager, from host
/// memory.
/// @par Cost  a new allocation is registered, which may take some milliseconds.
bool link::is_nic_accessible(const const_view& view) {
  if (view.bytes <= session_.agreed().eager_bytes || !has_nics()) return false;
  if (view.kind == memory_kind::host) return inner_->is_zero_copy(view);
  try {
    nics_->add(copiers_->of(view).of(), view);
  } catch (const error&) {
    return false;  // staging reports the error
  }
  const bool found = inner_->is_zero_copy(view);
  uses_nics_ = uses_nics_ || found;
  return found;
}

/// True also if the memory cannot be allocated: then the payload fails instead of waiting.
bool link::has_room(transfer_method how, bool by_nics, in_flight_frame& d) {
  d.by = nullptr;
  d.slot = nullptr;
  d.failure.reset();
  if (how == transfer_method::inline_data) return true;
  const bool is_staged = current_.payload.kind != memory_kind::host && !by_nics;
  if (!is_staged) return payloads_in_place_ < max_payloads_in_place;
  try {
    d.by = &copiers_->of(current_.payload);
    d.slot = staging_out_.take(d.by->of(), current_.payload.bytes);
    return d.slot != nullptr;
  } catch (const error& why) {
    d.failure = why;
    return true;
  }
}

/// Sends the current frame, with its payload or before it. False: no room yet.
bool link::send_frame() {
  // A write grant is sent in one message with the accept that follows it.
  if (current_.header.type == protocol::frame_type::grant &&
      inline_bytes_ >= protocol::frame_bytes) {
    protocol::encode(current_.header, grant_.emplace());
    return true;
  }
  const transfer_method how = choose_transfer(current_);
  if (how == transfer_method::placed) return write_in_place();
  if (how == transfer_method::reference) return send_read_request();
  if (how == transfer_method::shared) return stage_shared();
  const bool by_nics = how == transfer_method::message && is_nic_accessible(current_.payload);
  in_flight_frame& d = take_in_flight_frame();
  if (!has_room(how, by_nics, d)) {
    free_in_flight_frames_.push_back(&d);
    return false;
  }
  d.out = current_;
  d.is_sent = true;
  d.parts = how == transfer_method::inline_data ? 1 : 2;
  protocol::frame f = current_.header;
  if (how == transfer_method::message) f.flags |= by_message;
  if (by_nics) f.flags |= by_nic;
  std::size_t bytes = 0;
  const auto put = [&d, &bytes](const protocol::wire_frame& encoded) {
    std::memcpy(d.encoded.get() + bytes, encoded.data(), encoded.size());
    bytes += encoded.size();
  };
  if (grant_ && f.type == protocol::frame_type::accept) {
    put(*grant_);
    grant_.reset();
  }
  protocol::wire_frame encoded;
  protocol::encode(f, encoded);
  put(encoded);
  if (how == transfer_method::inline_data && current_.payload.bytes > 0) {
    std::memcpy(d.encoded.get() + bytes, current_.payload.data, current_.payload.bytes);
    bytes += current_.payload.bytes;
  }
  d.header.view = {d.encoded.get(), bytes};
  if (how == transfer_method::message) {
    d.next = nullptr;
    (first_payload_ == nullptr ? first_payload_ : last_payload_->next) = &d;
    last_payload_ = &d;
    stage(d);
  }
  if (start_inner(d.header)) header_done(d);
  if (how == transfer_method::message) send_payloads();
  return true;
}

void link::stage(in_flight_frame& d) {
  d.is_ready = true;
  if (d.failure) return;
  session_.pin(*d.out.op);
  if (d.by == nullptr) {
    ++payloads_in_place_;
    return;
  }
  try {
    d.by->copy(copier::copy_kind::to_host, d.slot, d.out.payload.data, d.out.payload.bytes,
               d.staged);
  } catch (const error& why) {
    d.failure = why;
    session_.unpin(*d.out.op);
    return;
  }
  d.is_ready = false;
  begin_async();
}

void link::stage_done(in_flight_frame& d, const std::shared_ptr<const error>& failure) {
  if (failure) d.failure = *failure;
  d.is_ready = true;
  session_.unpin(*d.out.op);
  send_payloads();
}

/// In the order of their frames, in which the peer posts its receives.
void link::send_payloads() {
  while (first_payload_ != nullptr && first_payload_->is_ready) {
    in_flight_frame& d = *first_payload_;
    first_payload_ = d.next;
    d.payload.view = {};
    if (!d.failure) {
      const const_view& from = d.out.payload;
      d.payload.view = {const_cast<void*>(from.data), from.bytes, from.kind, from.device};
      if (d.by != nullptr) d.payload.view = {d.slot, from.bytes};
    }
    if (session_.is_over()) {
      d.payload.result = errc::channel_closed;
      payload_done(d);
    } else if (start_inner(d.payload)) {
      payload_done(d);
    }
  }
}

void link::release_staging(in_flight_frame& d) noexcept {
  if (d.slot != nullptr) staging_out_.give_back(d.by->of().kind(), d.slot);
  d.slot = nullptr;
}

void link::header_done(in_flight_frame& d) {
  if (d.header.result) {
    d.is_sent = false;
    inner_failed(d.header);
  }
  part_done(d);
}

void link::payload_done(in_flight_frame& d) {
  release_staging(d);
  if (d.by == nullptr && !d.failure) {
    --payloads_in_place_;
    session_.unpin(*d.out.op);
  }
  if (d.payload.result && !was_dropped(d.payload)) {
    d.is_sent = false;
    if (!session_.is_over()) inner_failed(d.payload);
  }
  part_done(d);
}

void link::part_done(in_flight_frame& d) {
  if (--d.parts > 0) return;
  // A session that is over has completed its operations itself.
  if (!session_.is_over() && d.is_sent) {
    if (d.failure) {
      session_.fail_payload(d.out, *d.failure);
    } else {
      session_.sent(d.out);
    }
  }
  d.out = {};
  free_in_flight_frames_.push_back(&d);
}

}  // namespace tandem::devices
