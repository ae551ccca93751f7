// Payloads that a copy engine here reads out of the peer's device memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "devices/link.hpp"

namespace tandem::devices {
pull::pull(link& in) : of(in) {
  landed.owner = this;
  landed.done = [](device_wait& wait, const std::shared_ptr<const error>& why) {
    auto& p = *static_cast<pull*>(wait.owner);
    const auto keep = p.of.end_async();
    keep->pull_done(p, why);
    keep->complete_done();  // before the acknowledgement is sent
    keep->flush_and_complete();
  };
  landed.destroy = [](device_wait& wait) noexcept {
    auto& p = *static_cast<pull*>(wait.owner);
    p.by->finish();
    if (p.into != nullptr) p.into->finish();
    p.of.destroyed();
  };
}

pull& link::take_pull() {
  if (free_pulls_.empty()) {
    all_pulls_.push_back(std::make_unique<pull>(*this));
    free_pulls_.push_back(all_pulls_.back().get());
  }
  pull& p = *free_pulls_.back();
  free_pulls_.pop_back();
  return p;
}

bool link::is_sound(const protocol::frame& f, const reference& what) const {
  if (f.payload_bytes == 0) return false;
  const auto is_other = [&](const pull* p) {
    const protocol::frame& theirs = p->where.header;
    return p->what.serial != what.serial &&
           (theirs.message_id != f.message_id || theirs.type != f.type ||
            theirs.offset >= f.offset + f.payload_bytes || f.offset >= theirs.offset + p->bytes());
  };
  return std::all_of(pulls_.begin(), pulls_.end(), is_other);
}

void link::receive_reference(const protocol::frame& f, const reference& what) {
  const bool is_shared =
      is_staging(what.at.allocation) ? shares_staging_ : peer_access_ != peer_access::none;
  if (!is_shared || default_copier_ == nullptr || !is_sound(f, what)) {
    return protocol_violation(fmt::format("a reference to {} bytes", f.payload_bytes));
  }
  pull& p = take_pull();
  p.what = what;
  if (!session_.begin(f, p.where)) {
    free_pulls_.push_back(&p);
    return protocol_violation(session_.violation());
  }
  p.is_known = true;
  pulls_.push_back(&p);
  begin_pull(p);
}

void link::begin_pull(pull& p) {
  const protocol::incoming_payload& first = p.where;
  if (first.target == nullptr) return finish_pull(p);
  try {
    const bool has_engine = is_on_device(first.op);
    if (!find_source(p, has_engine ? &copiers_->of(first.op->view) : nullptr)) return;
    if (has_engine && p.into == nullptr) return pull_to_view(p);
    if (!has_engine && p.from.host_address != nullptr) {
      std::memcpy(first.target, p.from.host_address, p.bytes());
      return finish_pull(p);
    }
  } catch (const error& why) {
    p.failure = why;
    return finish_pull(p);
  }
  pull_piece(p);
}

std::optional<imports::source> link::look_up(const pull& p, accelerator& by, std::string& why) {
  const shared_location& at = p.what.at;
  if (is_staging(at.allocation)) return peer_staging_.find(at, p.bytes(), by, why);
  return imports_->find(at, p.bytes(), by, why);
}

/// Chooses the engine that reads: that of the view, else the one for which the allocation was
/// opened. False: the channel has failed.
bool link::find_source(pull& p, copier* for_view) {
  std::string why;
  std::optional<imports::source> found;
  p.by = for_view != nullptr ? for_view : default_copier_;
  try {
    found = look_up(p, p.by->of(), why);
  } catch (const error&) {
    if (p.by == default_copier_) throw;
    p.into = std::exchange(p.by, default_copier_);
    found = look_up(p, default_copier_->of(), why);
  }
  if (found) {
    p.from = std::move(*found);
    return true;
  }
  protocol_violation(why);
  finish_pull(p);
  return false;
}

void link::pull_to_view(pull& p) {
  const protocol::incoming_payload& first = p.where;
  const bool is_here = p.from.host_address != nullptr;
  p.by->copy(is_here ? copier::copy_kind::to_device : copier::copy_kind::from_peer, first.target,
             p.from.from, p.bytes(), p.landed);
  p.op = first.op;
  session_.pin(*p.op);
  begin_async();
}

/// Copies the next piece to staging, when there is room.
void link::pull_piece(pull& p) {
  p.piece = std::min<std::uint64_t>(p.bytes() - p.done, session_.agreed().chunk_bytes);
  try {
    p.slot = staging_in_.take(p.by->of(), p.piece);
    if (p.slot == nullptr) {
      waiting_pulls_.push_back(&p);
      return;
    }
    p.by->copy(copier::copy_kind::from_peer, p.slot,
               static_cast<const std::byte*>(p.from.from) + p.done, p.piece, p.landed);
  } catch (const error& why) {
    p.failure = why;
    return finish_pull(p);
  }
  begin_async();
}

void link::pull_pieces() {
  for (std::size_t left = waiting_pulls_.size(); left > 0; --left) {
    pull& next = *waiting_pulls_.front();
    waiting_pulls_.pop_front();
    pull_piece(next);
  }
}

void link::pull_done(pull& p, const std::shared_ptr<const error>& failure) {
  if (failure) p.failure = *failure;
  if (p.slot != nullptr && !p.failure && !p.is_second_copy && empty_slot(p)) return;
  p.is_second_copy = false;
  if (p.slot != nullptr) {
    staging_in_.give_back(p.by->of().kind(), std::exchange(p.slot, nullptr));
    p.done += p.piece;
    if (p.op != nullptr) session_.unpin(*std::exchange(p.op, nullptr));
    const bool continues = p.is_known && p.where.target != nullptr && !p.failure;
    if (continues && p.done < p.bytes()) {
      pull_piece(p);
    } else {
      finish_pull(p);
    }
    fill_views();
    post_payloads();
    pull_pieces();
  } else {
    finish_pull(p);
  }
  conclude();
}

/// Copies the slot to the view or the message store, if still needed. True: a second copy is in
/// flight.
bool link::empty_slot(pull& p) {
  const protocol::incoming_payload& first = p.where;
  if (!p.is_known || first.target == nullptr) return false;
  std::byte* const to = first.target + p.done;
  if (p.into == nullptr) {
    std::memcpy(to, p.slot, p.piece);
    return false;
  }
  try {
    p.into->copy(copier::copy_kind::to_device, to, p.slot, p.piece, p.landed);
  } catch (const error& why) {
    p.failure = why;
    return false;
  }
  p.is_second_copy = true;
  p.op = first.op;
  session_.pin(*p.op);
  begin_async();
  return true;
}

void link::finish_pull(pull& p) {
  if (p.slot != nullptr) {
    staging_in_.give_back(p.by->of().kind(), std::exchange(p.slot, nullptr));
  }
  if (p.is_known && p.failure) {
    if (operation* const op = p.where.op) session_.fail_payload(*op, *p.failure);
  }
  if (p.is_known && p.failure && p.where.entry != nullptr) {
    session_.mark_unreadable(p.where);
  } else if (p.is_known) {
    session_.end(p.where);
  }
  if (p.op != nullptr) session_.unpin(*std::exchange(p.op, nullptr));
  if (!is_over()) pulled_.push_back(p.what.serial);
  std::erase(pulls_, &p);
  p.is_known = false;
  p.from = {};
  p.by = p.into = nullptr;
  p.done = 0;
  p.is_second_copy = false;
  p.failure.reset();
  free_pulls_.push_back(&p);
}

/// Discards the results of reads in flight. @param peer_has_closed  else the session has failed
void link::forget_pulls(bool peer_has_closed) {
  for (pull* const p : pulls_) {
    if (peer_has_closed && p->is_known) session_.abandon(p->where);
    p->is_known = false;
  }
  while (!waiting_pulls_.empty()) {
    pull& waiting = *waiting_pulls_.front();
    waiting_pulls_.pop_front();
    finish_pull(waiting);
  }
}

}  // namespace tandem::devices
