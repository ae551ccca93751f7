// Payloads that the peer's copy engine reads by reference, and the control messages about device
// memory.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tandem/log.hpp>

#include "devices/flows.hpp"
#include "devices/link.hpp"

namespace tandem::devices {
namespace {

/// In flight at once.
constexpr std::uint64_t most_referred_bytes = std::uint64_t{1} << 30;
/// In one copy, which other copies of that engine wait for: under a millisecond over NVLink.
constexpr std::uint64_t most_reference_bytes = std::uint64_t{256} << 20;
/// After a close by either end, copies in flight are not acknowledged any more. The peer's engines
/// complete them within this time, and the peer discards what it reads after the close.
constexpr std::chrono::milliseconds longest_copy{200};

}  // namespace

referral::referral(link& in, std::uint32_t name) : of(in), serial(name) {
  header.what = operation::kind::send;
  header.flow = frame_flow;
  header.owner = this;
  header.complete = [](operation& over) {
    auto& r = *static_cast<referral*>(over.owner);
    const auto keep = r.of.came_back();
    keep->reference_left(r);
    keep->settle();
  };
  header.destroy = [](operation& gone) noexcept {
    static_cast<referral*>(gone.owner)->of.destroyed();
  };
  staged.owner = this;
  staged.done = [](device_wait& wait, const std::shared_ptr<const error>& failure) {
    auto& r = *static_cast<referral*>(wait.owner);
    const auto keep = r.of.came_back();
    keep->staged_over(r, failure);
    keep->settle();
  };
  staged.destroy = [](device_wait& wait) noexcept {
    auto& r = *static_cast<referral*>(wait.owner);
    r.by->finish();
    r.of.destroyed();
  };
}

said_note::said_note(link& in) : of(in) {
  op.what = operation::kind::send;
  op.flow = frame_flow;
  op.owner = this;
  op.view = {words.data(), words.size()};
  op.complete = [](operation& over) {
    auto& sent = *static_cast<said_note*>(over.owner);
    const auto keep = sent.of.came_back();
    sent.of.free_notes_.push_back(&sent);
    if (over.result) keep->inner_failed(over);
    keep->settle();
  };
  op.destroy = [](operation& gone) noexcept {
    static_cast<said_note*>(gone.owner)->of.destroyed();
  };
}

referral& link::take_referral() {
  if (free_referrals_.empty()) {
    const auto serial = static_cast<std::uint32_t>(referrals_.size());
    referrals_.push_back(std::make_unique<referral>(*this, serial));
    free_referrals_.push_back(referrals_.back().get());
  }
  referral& r = *free_referrals_.back();
  free_referrals_.pop_back();
  return r;
}

void link::flush() {
  say_notes();
  flush_frames();
  say_notes();
}

/// True: `current_location_` is set.
bool link::can_be_read(const protocol::outgoing& out) {
  if (reads_ == reading::none || out.payload.kind == memory_kind::host) return false;
  try {
    accelerator& of = copiers_->of(out.payload).of();
    const const_view all = out.op->view;
    auto at = exports_->find(of, all.part(out.header.offset, all.bytes - out.header.offset));
    is_rest_there_ = at.has_value();
    if (!at && out.payload.bytes < all.bytes) at = exports_->find(of, out.payload);
    if (at) one_at_ = *at;
    return at.has_value();
  } catch (const error&) {
    return false;  // forwarding reports the error
  }
}

bool link::has_room_for_referral() const noexcept {
  if (free_referrals_.empty() && referrals_.size() == most_referrals) return false;
  return referred_bytes_ == 0 || referred_bytes_ + one_.payload.bytes <= most_referred_bytes;
}

/// The current frame and, if `takes_more`, as many chunks after it as fit one copy.
void link::gather_chunks(referral& r, bool takes_more) {
  r.out = one_;
  if (takes_more) session_.widen(r.out, most_reference_bytes);
  referred_bytes_ += r.out.payload.bytes;
  r.op = one_.op;
  session_.pin(*r.op);
}

/// Sends a reference by which the peer reads the view. False: no room.
bool link::refer() {
  if (!has_room_for_referral()) return false;
  referral& r = take_referral();
  gather_chunks(r, is_rest_there_);
  r.at = one_at_;
  r.read_from = &copiers_->of(one_.payload);
  r.read_from->expect_reader(true);
  send_reference(r);
  return true;
}

void link::send_reference(referral& r) {
  protocol::frame f = r.out.header;
  f.flags |= by_reference;
  protocol::wire_frame words;
  protocol::encode(f, words);
  std::copy(words.begin(), words.end(), r.words.begin());
  encode(reference{r.serial, r.at}, r.words.data() + words.size());
  r.header.view = {r.words.data(), r.words.size()};
  r.has_left = false;
  if (start_inner(r.header)) reference_left(r);
}

void link::reference_left(referral& r) {
  r.has_left = true;
  if (r.header.result) inner_failed(r.header);
  if (r.op == nullptr) {
    free_referrals_.push_back(&r);
  } else if (r.is_placed) {
    all_moved(r);
  }
}

void link::all_moved(referral& r) {
  if (!session_.is_over()) session_.sent(r.out);
  let_go(r);
}

/// False: no such reference is in flight.
bool link::acknowledged(std::uint32_t serial) {
  if (serial >= referrals_.size()) return false;
  referral& r = *referrals_[serial];
  if (r.op == nullptr || r.is_staging || r.is_placed) return false;
  all_moved(r);
  return true;
}

void link::let_go(referral& r) {
  referred_bytes_ -= r.out.payload.bytes;
  if (r.slot != nullptr) {
    staging_out_.give_back(r.by->of().kind(), std::exchange(r.slot, nullptr));
  }
  if (r.read_from != nullptr) std::exchange(r.read_from, nullptr)->expect_reader(false);
  r.mapped.reset();
  r.is_placed = false;
  session_.unpin(*std::exchange(r.op, nullptr));
  if (r.has_left) free_referrals_.push_back(&r);
}

/// The peer discards what it reads from now on. Copies in flight here are released on completion.
void link::let_go_of_referrals() noexcept {
  for (const std::unique_ptr<referral>& each : referrals_) {
    if (each->op != nullptr && !each->is_staging) let_go(*each);
  }
  patience_.cancel();
}

void link::let_go_later() {
  if (referred_bytes_ == 0 && lent_views_.empty()) return;
  patience_.expires_after(longest_copy);
  patience_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (cancelled) return;
    self->let_go_of_referrals();
    self->take_views_back();
    self->complete_done();
  });
}

void link::say(const note& what) {
  if (free_notes_.empty()) {
    notes_.push_back(std::make_unique<said_note>(*this));
    free_notes_.push_back(notes_.back().get());
  }
  said_note& message = *free_notes_.back();
  free_notes_.pop_back();
  encode(what, message.words);
  if (!start_inner(message.op)) return;
  free_notes_.push_back(&message);
  if (message.op.result) inner_failed(message.op);
}

/// Cheap: `send_control_messages` runs twice with every step of a message, mostly with nothing to
/// send.
bool link::has_notes() const noexcept {
  if (!pulled_.empty() || (exports_ && exports_->has_news())) return true;
  if (has_staging_to_offer()) return true;
  return home_ != nullptr && (lent_.has_unanswered() || (imports_ && imports_->has_unanswered()));
}

void link::say_notes() {
  if (!has_notes() || session_.is_over()) return;
  while (!pulled_.empty()) {
    note made;
    made.count = static_cast<std::uint16_t>(std::min(pulled_.size(), made.serials.size()));
    std::copy_n(pulled_.begin(), made.count, made.serials.begin());
    pulled_.erase(pulled_.begin(), pulled_.begin() + made.count);
    say(made);
  }
  offer_staging();
  for (exports::news news; exports_ && exports_->next(news);) {
    note made{.what = note::type::retired, .id = news.retired};
    if (news.described) {
      made = {.what = note::type::described, .id = news.described->id};
      made.allocation = *news.described;
    }
    say(made);
  }
  imports::answer answer;
  while (home_ != nullptr &&
         (lent_.next(home_->of(), answer) || (imports_ && imports_->next(home_->of(), answer)))) {
    const auto what = answer.why.empty() ? note::type::opened : note::type::refused;
    note made{.what = what, .id = answer.id};
    made.why = answer.why;
    say(made);
  }
}

void link::take_note(std::span<const std::byte> bytes) {
  std::string why;
  const std::optional<note> received = decode_note(bytes, why);
  if (!received) return broken(why);
  const bool reads = reads_ != reading::none;
  const bool is_of_staging = is_staging(received->id);
  if (!(is_of_staging || received->what == note::type::pulled ? shares_staging_ || reads : reads)) {
    return broken("a control message about memory that is not shared");
  }
  bool is_sound = true;
  switch (received->what) {
    case note::type::described:
      is_sound = is_of_staging ? lent_.describe(received->allocation, why)
                               : imports_->describe(received->allocation, why);
      break;
    case note::type::retired:
      is_sound = !is_of_staging && imports_->retire(received->id, why);
      break;
    case note::type::opened:
      is_sound = is_of_staging ? answered_staging(*received) : exports_->opened(received->id);
      break;
    case note::type::refused:
      is_sound = is_of_staging ? answered_staging(*received)
                               : exports_->refused(received->id, received->why);
      break;
    case note::type::pulled:
      for (std::size_t i = 0; i < received->count && is_sound; ++i) {
        is_sound = acknowledged(received->serials[i]);
      }
      break;
  }
  if (!is_sound) broken(why.empty() ? "a control message about memory it was not given" : why);
}

/// Decides how device memory is transferred, from the locations and flags of both ends.
void link::meet(const greeting& theirs) {
  const std::uint32_t both = wants_ & theirs.flags;
  std::string why = "one end has no accelerator";
  bool is_here = false, is_there = false;
  for (const memory_kind vendor : vendors) {
    const bool has = std::find(kinds_.begin(), kinds_.end(), vendor) != kinds_.end();
    const bool peer_has = (theirs.kinds & 1U << static_cast<unsigned>(vendor)) != 0;
    is_here |= has;
    is_there |= peer_has;
    if (!has || !peer_has) continue;
    why = "peer copies are off at one end";
    if ((both & wants_peer_copies) != 0) reads_ = choose_reading(where_, theirs.where, why);
  }
  shares_staging_ = (both & wants_shared_staging) != 0 && is_here && is_there &&
                    is_one_host(where_, theirs.where);
  if (shares_staging_) staging_out_.share();
  const int peer = session_.who().peer;
  const std::string who = peer >= 0 ? fmt::format("rank {}", peer) : "the peer";
  if (reads_ == reading::none) {
    log(log_level::debug, "devices",
        fmt::format("device memory is forwarded to {}{}: {}", who,
                    shares_staging_ ? " through shared pinned memory" : "", why));
    return;
  }
  exports_.emplace(reads_);
  imports_.emplace(reads_);
  session_.lends_by(this);
  log(log_level::debug, "devices", fmt::format("peer copies with {}", who));
}

}  // namespace tandem::devices
