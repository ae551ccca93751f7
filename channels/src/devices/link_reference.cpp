// Payloads that the peer's copy engine reads by reference, and the control messages about device
// memory.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tandem/log.hpp>

#include "devices/link.hpp"

namespace tandem::devices {
namespace {

/// In flight at once.
constexpr std::uint64_t max_referred_bytes = std::uint64_t{1} << 30;
/// In one copy, which other copies of that engine wait for: under a millisecond over NVLink.
constexpr std::uint64_t max_reference_bytes = std::uint64_t{256} << 20;
/// After a close by either end, copies in flight are not acknowledged any more. The peer's engines
/// complete them within this time, and the peer discards what it reads after the close.
constexpr std::chrono::milliseconds max_copy_time{200};

}  // namespace

read_request::read_request(link& in, std::uint32_t name) : of(in), serial(name) {
  header.what = operation::kind::send;
  header.flow = frame_flow;
  header.owner = this;
  header.complete = [](operation& over) {
    auto& r = *static_cast<read_request*>(over.owner);
    const auto keep = r.of.end_async();
    keep->reference_sent(r);
    keep->flush_and_complete();
  };
  header.destroy = [](operation& gone) noexcept {
    static_cast<read_request*>(gone.owner)->of.destroyed();
  };
  staged.owner = this;
  staged.done = [](device_wait& wait, const std::shared_ptr<const error>& failure) {
    auto& r = *static_cast<read_request*>(wait.owner);
    const auto keep = r.of.end_async();
    keep->staged_done(r, failure);
    keep->flush_and_complete();
  };
  staged.destroy = [](device_wait& wait) noexcept {
    auto& r = *static_cast<read_request*>(wait.owner);
    r.by->finish();
    r.of.destroyed();
  };
}

control_send::control_send(link& in) : of(in) {
  op.what = operation::kind::send;
  op.flow = frame_flow;
  op.owner = this;
  op.view = {encoded.data(), encoded.size()};
  op.complete = [](operation& over) {
    auto& sent = *static_cast<control_send*>(over.owner);
    const auto keep = sent.of.end_async();
    sent.of.free_control_sends_.push_back(&sent);
    if (over.result) keep->inner_failed(over);
    keep->flush_and_complete();
  };
  op.destroy = [](operation& gone) noexcept {
    static_cast<control_send*>(gone.owner)->of.destroyed();
  };
}

read_request& link::take_read_request() {
  if (free_read_requests_.empty()) {
    const auto serial = static_cast<std::uint32_t>(read_requests_.size());
    read_requests_.push_back(std::make_unique<read_request>(*this, serial));
    free_read_requests_.push_back(read_requests_.back().get());
  }
  read_request& r = *free_read_requests_.back();
  free_read_requests_.pop_back();
  return r;
}

void link::flush() {
  send_control_messages();
  flush_frames();
  send_control_messages();
}

/// True: `current_location_` is set.
bool link::can_be_read(const protocol::outgoing_frame& out) {
  if (peer_access_ == peer_access::none || out.payload.kind == memory_kind::host) return false;
  try {
    accelerator& of = copiers_->of(out.payload).of();
    const const_view all = out.op->view;
    auto at = exports_->find(of, all.part(out.header.offset, all.bytes - out.header.offset));
    is_rest_readable_ = at.has_value();
    if (!at && out.payload.bytes < all.bytes) at = exports_->find(of, out.payload);
    if (at) current_location_ = *at;
    return at.has_value();
  } catch (const error&) {
    return false;  // forwarding reports the error
  }
}

bool link::has_room_for_read_request() const noexcept {
  if (free_read_requests_.empty() && read_requests_.size() == max_read_requests) return false;
  return referred_bytes_ == 0 || referred_bytes_ + current_.payload.bytes <= max_referred_bytes;
}

/// The current frame and, if `takes_more`, as many chunks after it as fit one copy.
void link::take_chunks(read_request& r, bool takes_more) {
  r.out = current_;
  if (takes_more) session_.coalesce_chunks(r.out, max_reference_bytes);
  referred_bytes_ += r.out.payload.bytes;
  r.op = current_.op;
  session_.pin(*r.op);
}

/// Sends a reference by which the peer reads the view. False: no room.
bool link::send_read_request() {
  if (!has_room_for_read_request()) return false;
  read_request& r = take_read_request();
  take_chunks(r, is_rest_readable_);
  r.at = current_location_;
  r.read_from = &copiers_->of(current_.payload);
  r.read_from->expect_reader(true);
  send_reference(r);
  return true;
}

void link::send_reference(read_request& r) {
  protocol::frame f = r.out.header;
  f.flags |= by_reference;
  protocol::wire_frame encoded;
  protocol::encode(f, encoded);
  std::copy(encoded.begin(), encoded.end(), r.encoded.begin());
  encode(reference{r.serial, r.at}, r.encoded.data() + encoded.size());
  r.header.view = {r.encoded.data(), r.encoded.size()};
  r.is_sent = false;
  if (start_inner(r.header)) reference_sent(r);
}

void link::reference_sent(read_request& r) {
  r.is_sent = true;
  if (r.header.result) inner_failed(r.header);
  if (r.op == nullptr) {
    free_read_requests_.push_back(&r);
  } else if (r.is_placed) {
    transfer_done(r);
  }
}

void link::transfer_done(read_request& r) {
  if (!session_.is_over()) session_.sent(r.out);
  release(r);
}

/// False: no such reference is in flight.
bool link::acknowledged(std::uint32_t serial) {
  if (serial >= read_requests_.size()) return false;
  read_request& r = *read_requests_[serial];
  if (r.op == nullptr || r.is_staging || r.is_placed) return false;
  transfer_done(r);
  return true;
}

void link::release(read_request& r) {
  referred_bytes_ -= r.out.payload.bytes;
  if (r.slot != nullptr) {
    staging_out_.give_back(r.by->of().kind(), std::exchange(r.slot, nullptr));
  }
  if (r.read_from != nullptr) std::exchange(r.read_from, nullptr)->expect_reader(false);
  r.mapped.reset();
  r.is_placed = false;
  session_.unpin(*std::exchange(r.op, nullptr));
  if (r.is_sent) free_read_requests_.push_back(&r);
}

/// The peer discards what it reads from now on. Copies in flight here are released on completion.
void link::release_read_requests() noexcept {
  for (const std::unique_ptr<read_request>& each : read_requests_) {
    if (each->op != nullptr && !each->is_staging) release(*each);
  }
  release_timer_.cancel();
}

void link::release_later() {
  if (referred_bytes_ == 0 && granted_views_.empty()) return;
  release_timer_.expires_after(max_copy_time);
  release_timer_.async_wait([self = self()](error_code cancelled) {
    if (cancelled) return;
    self->release_read_requests();
    self->end_all_grants();
    self->complete_done();
  });
}

void link::send_control(const control_message& what) {
  if (free_control_sends_.empty()) {
    control_sends_.push_back(std::make_unique<control_send>(*this));
    free_control_sends_.push_back(control_sends_.back().get());
  }
  control_send& message = *free_control_sends_.back();
  free_control_sends_.pop_back();
  encode(what, message.encoded);
  if (!start_inner(message.op)) return;
  free_control_sends_.push_back(&message);
  if (message.op.result) inner_failed(message.op);
}

/// Cheap: `send_control_messages` runs twice with every step of a message, mostly with nothing to
/// send.
bool link::has_control_messages() const noexcept {
  if (!pulled_.empty() || (exports_ && exports_->has_updates())) return true;
  if (has_staging_to_offer()) return true;
  return default_copier_ != nullptr &&
         (peer_staging_.has_unanswered() || (imports_ && imports_->has_unanswered()));
}

void link::send_control_messages() {
  if (!has_control_messages() || session_.is_over()) return;
  while (!pulled_.empty()) {
    control_message made;
    made.count = static_cast<std::uint16_t>(std::min(pulled_.size(), made.serials.size()));
    std::copy_n(pulled_.begin(), made.count, made.serials.begin());
    pulled_.erase(pulled_.begin(), pulled_.begin() + made.count);
    send_control(made);
  }
  offer_staging();
  for (exports::update update; exports_ && exports_->next(update);) {
    control_message made{.what = control_message::type::retired, .id = update.retired};
    if (update.described) {
      made = {.what = control_message::type::described, .id = update.described->id};
      made.allocation = *update.described;
    }
    send_control(made);
    send_pages(made);
  }
  imports::answer answer;
  while (default_copier_ != nullptr &&
         (peer_staging_.next(default_copier_->of(), answer) ||
          (imports_ && imports_->next(default_copier_->of(), answer)))) {
    const auto what =
        answer.why.empty() ? control_message::type::opened : control_message::type::refused;
    control_message made{.what = what, .id = answer.id};
    made.why = answer.why;
    send_control(made);
  }
}

void link::send_pages(const control_message& described) {
  std::span<const described_pages> left = described.allocation.pages;
  while (!left.empty()) {
    const std::size_t count = std::min(left.size(), control_message::max_pages);
    control_message part{.what = control_message::type::pages, .id = described.id};
    part.allocation.pages.assign(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count));
    left = left.subspan(count);
    send_control(part);
  }
}

void link::take_control_message(std::span<const std::byte> bytes) {
  std::string why;
  const std::optional<control_message> received = decode_control_message(bytes, why);
  if (!received) return protocol_violation(why);
  const bool access = peer_access_ != peer_access::none;
  const bool is_of_staging = is_staging(received->id);
  if (!(is_of_staging || received->what == control_message::type::pulled ? shares_staging_ || access
                                                                         : access)) {
    return protocol_violation("a control message about memory that is not shared");
  }
  bool is_sound = true;
  switch (received->what) {
    case control_message::type::described:
      is_sound = is_of_staging ? peer_staging_.describe(received->allocation, why)
                               : imports_->describe(received->allocation, why);
      break;
    case control_message::type::pages:
      is_sound =
          !is_of_staging && imports_->add_pages(received->id, received->allocation.pages, why);
      break;
    case control_message::type::retired:
      is_sound = !is_of_staging && imports_->retire(received->id, why);
      break;
    case control_message::type::opened:
      is_sound = is_of_staging ? staging_answered(*received) : exports_->opened(received->id);
      break;
    case control_message::type::refused:
      is_sound = is_of_staging ? staging_answered(*received)
                               : exports_->refused(received->id, received->why);
      break;
    case control_message::type::pulled:
      for (std::size_t i = 0; i < received->count && is_sound; ++i) {
        is_sound = acknowledged(received->serials[i]);
      }
      break;
  }
  if (!is_sound)
    protocol_violation(why.empty() ? "a control message about memory it was not given" : why);
}

/// Decides how device memory is transferred, from the locations and flags of both ends.
void link::negotiate(const handshake& theirs) {
  const std::uint32_t both = requested_flags_ & theirs.flags;
  std::string why = "one end has no accelerator";
  bool is_here = false, is_there = false;
  for (const memory_kind vendor : vendors) {
    const bool has = std::find(kinds_.begin(), kinds_.end(), vendor) != kinds_.end();
    const bool peer_has = (theirs.kinds & 1U << static_cast<unsigned>(vendor)) != 0;
    is_here |= has;
    is_there |= peer_has;
    if (!has || !peer_has) continue;
    why = "peer copies are off at one end";
    if ((both & wants_peer_copies) != 0)
      peer_access_ = choose_peer_access(where_, theirs.where, why);
  }
  shares_staging_ = (both & wants_shared_staging) != 0 && is_here && is_there &&
                    is_one_host(where_, theirs.where);
  if (shares_staging_) staging_out_.share();
  const int peer = session_.who().peer;
  const std::string who = peer >= 0 ? fmt::format("rank {}", peer) : "the peer";
  if (peer_access_ == peer_access::none) {
    log(log_level::debug, "devices",
        fmt::format("device memory is forwarded to {}{}: {}", who,
                    shares_staging_ ? " through shared pinned memory" : "", why));
    return;
  }
  exports_.emplace(peer_access_);
  imports_.emplace(peer_access_);
  session_.set_remote_write_grants(this);
  log(log_level::debug, "devices", fmt::format("peer copies with {}", who));
}

}  // namespace tandem::devices
