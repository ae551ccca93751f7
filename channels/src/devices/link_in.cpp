// Receiving frames and the payloads of the second flow.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <cstring>

#include "devices/handshake.hpp"
#include "devices/link.hpp"

namespace tandem::devices {
incoming_piece::incoming_piece(link& in) : of(in) {
  payload.what = operation::kind::recv;
  payload.flow = payload_flow;
  payload.owner = landed.owner = this;
  payload.complete = [](operation& over) {
    auto& piece = *static_cast<incoming_piece*>(over.owner);
    const auto keep = piece.of.end_async();
    keep->payload_came(piece);
    keep->flush_and_complete();
  };
  payload.destroy = [](operation& gone) noexcept {
    static_cast<incoming_piece*>(gone.owner)->of.destroyed();
  };
  landed.done = [](device_wait& wait, const std::shared_ptr<const error>& failure) {
    auto& piece = *static_cast<incoming_piece*>(wait.owner);
    const auto keep = piece.of.end_async();
    keep->copy_done(piece, failure);
    keep->flush_and_complete();
  };
  landed.destroy = [](device_wait& wait) noexcept {
    auto& piece = *static_cast<incoming_piece*>(wait.owner);
    piece.by->finish();
    piece.of.destroyed();
  };
}

incoming_piece& link::take_piece() {
  if (free_pieces_.empty()) {
    pieces_.push_back(std::make_unique<incoming_piece>(*this));
    free_pieces_.push_back(pieces_.back().get());
  }
  incoming_piece& piece = *free_pieces_.back();
  free_pieces_.pop_back();
  return piece;
}

void link::recycle(incoming_piece& piece) noexcept {
  if (piece.slot != nullptr) staging_in_.give_back(piece.by->of().kind(), piece.slot);
  piece.slot = nullptr;
  piece.by = nullptr;
  piece.op = nullptr;
  piece.is_known = false;
  free_pieces_.push_back(&piece);
}

void link::start_reading() {
  const std::size_t bytes = std::max(protocol::frame_bytes + inline_bytes_, control_message_bytes);
  for (control_slot& slot : control_) {
    slot.of = this;
    slot.bytes = std::make_unique<std::byte[]>(bytes);
    slot.op.what = operation::kind::recv;
    slot.op.flow = frame_flow;
    slot.op.view = {slot.bytes.get(), bytes};
    slot.op.owner = &slot;
    slot.op.complete = [](operation& op) {
      auto& came = *static_cast<control_slot*>(op.owner);
      const auto keep = came.of->end_async();
      came.is_over = true;
      keep->read_frames();
      keep->flush_and_complete();
    };
    slot.op.destroy = [](operation& op) noexcept {
      static_cast<control_slot*>(op.owner)->of->destroyed();
    };
    slot.is_over = start_inner(slot.op);
  }
  read_frames();
}

/// In sending order: receives may complete out of order.
void link::read_frames() {
  while (!read_ended_ && control_[next_control_].is_over) {
    control_slot& slot = control_[next_control_];
    if (slot.op.result == errc::peer_closed) {
      read_ended_ = peer_has_closed_ = true;
      forget_pulls(true);
      inner_failed(slot.op);
      conclude();
      return;
    }
    if (slot.op.result == errc::message_truncated) {
      return protocol_violation(fmt::format("a frame of {} bytes", slot.op.total_bytes));
    }
    if (slot.op.result) return inner_failed(slot.op);
    take(slot);
    if (read_ended_) return;
    slot.is_over = start_inner(slot.op);
    next_control_ = (next_control_ + 1) % control_slots;
  }
}

void link::take(const control_slot& slot) {
  if (!is_agreed_) return take_handshake(slot);
  const std::size_t bytes = slot.op.bytes;
  if (const std::span all(slot.bytes.get(), bytes); is_control_message(all))
    return take_control_message(all);
  std::string why;
  std::optional<protocol::frame> f;
  if (bytes >= protocol::frame_bytes) {
    f = protocol::decode(
        std::span<const std::byte, protocol::frame_bytes>(slot.bytes.get(), protocol::frame_bytes),
        why);
  }
  if (!f) return protocol_violation(why.empty() ? fmt::format("a frame of {} bytes", bytes) : why);
  if ((f->flags & by_reference) != 0 && protocol::carries_payload(f->type)) {
    if (bytes != protocol::frame_bytes + reference_bytes) {
      return protocol_violation(
          fmt::format("a reference of {} bytes", bytes - protocol::frame_bytes));
    }
    const reference what = decode_reference(slot.bytes.get() + protocol::frame_bytes);
    const bool is_placed = (f->flags & protocol::direct_placement) != 0;
    f->flags &= protocol::direct_placement;
    return is_placed ? receive_placed(*f) : receive_reference(*f, what);
  }
  if (f->type == protocol::frame_type::grant && bytes == 2 * protocol::frame_bytes) {
    return take_granted(*f, slot.bytes.get() + protocol::frame_bytes);
  }
  const bool is_alone = (f->flags & by_message) != 0 || !protocol::carries_payload(f->type);
  const std::size_t expected = is_alone ? 0 : f->payload_bytes;
  if (bytes != protocol::frame_bytes + expected) {
    return protocol_violation(fmt::format("{} bytes after a frame with a payload of {}",
                                          bytes - protocol::frame_bytes, expected));
  }
  if (!protocol::carries_payload(f->type)) return take_control_frame(*f);
  if ((f->flags & by_message) != 0) return receive_message(*f);
  receive_inline(*f, slot.bytes.get() + protocol::frame_bytes);
}

void link::take_handshake(const control_slot& slot) {
  std::string why;
  const handshake theirs = decode(std::span(slot.bytes.get(), slot.op.bytes), why);
  if (!why.empty()) return protocol_violation(why);
  if (theirs.inline_bytes != inline_bytes_) {
    return protocol_violation(fmt::format("frames with up to {} inline bytes, here {}",
                                          theirs.inline_bytes, inline_bytes_));
  }
  protocol::limits both = session_.agreed();
  both.credit_bytes = std::min(both.credit_bytes, theirs.credit_bytes);
  session_.set_limits(both);
  is_agreed_ = true;
  negotiate(theirs);
}

void link::take_control_frame(const protocol::frame& f) {
  if (f.type == protocol::frame_type::close) return protocol_violation("unexpected close frame");
  if (f.type == protocol::frame_type::withdraw) {
    // Payloads in flight still arrive, and are discarded.
    for (incoming_piece* each : incoming_pieces_) {
      if (each->is_known && each->where.header.message_id == f.message_id &&
          each->where.header.type == protocol::frame_type::data) {
        session_.drop(each->where);
        each->is_known = false;
      }
    }
  }
  if (!session_.handle(f)) return protocol_violation(session_.violation());
  release_views();
}

/// A write grant, and the accept in the same message.
void link::take_granted(const protocol::frame& grant, const std::byte* accept) {
  std::string why;
  const auto f = protocol::decode(
      std::span<const std::byte, protocol::frame_bytes>(accept, protocol::frame_bytes), why);
  if (!f) return protocol_violation(why);
  if (f->type != protocol::frame_type::accept)
    return protocol_violation("a write grant without its accept");
  take_control_frame(grant);
  if (!read_ended_) take_control_frame(*f);
}

void link::receive_inline(const protocol::frame& f, const std::byte* payload) {
  protocol::incoming_payload where;
  if (!session_.begin(f, where)) return protocol_violation(session_.violation());
  if (is_on_device(where.op) && f.payload_bytes > 0) {
    fill_job job{where.op,
                 {where.target, f.payload_bytes, where.op->view.kind, where.op->view.device},
                 nullptr,
                 0};
    session_.pin(*where.op);
    if (!fills_.empty() || !fill_some(job, payload)) {
      job.from = std::make_unique_for_overwrite<std::byte[]>(f.payload_bytes);
      std::memcpy(job.from.get(), payload, f.payload_bytes);
      fills_.push_back(std::move(job));
    }
  } else if (where.target != nullptr && f.payload_bytes > 0) {
    std::memcpy(where.target, payload, f.payload_bytes);
  }
  session_.end(where);
}

void link::receive_message(const protocol::frame& f) {
  for (const incoming_piece* each : incoming_pieces_) {
    if (each->where.header.message_id == f.message_id && each->where.header.type == f.type &&
        each->where.header.offset == f.offset) {
      return protocol_violation("the same payload twice");
    }
  }
  incoming_piece& piece = take_piece();
  if (!session_.begin(f, piece.where)) {
    recycle(piece);
    return protocol_violation(session_.violation());
  }
  piece.is_known = true;
  incoming_pieces_.push_back(&piece);
  piece.next = nullptr;
  (first_incoming_ == nullptr ? first_incoming_ : last_incoming_->next) = &piece;
  last_incoming_ = &piece;
  post_payloads();
}

/// Posts the receives of payloads in the order of their frames.
void link::post_payloads() {
  while (first_incoming_ != nullptr) {
    incoming_piece& piece = *first_incoming_;
    if (is_over()) {
      first_incoming_ = piece.next;
      close_incoming(piece);
      recycle(piece);
      continue;
    }
    if (!prepare(piece)) return;
    first_incoming_ = piece.next;
    if (start_inner(piece.payload)) finish_payload(piece);
  }
}

/// Sets the view to receive into. False: staging is full.
bool link::prepare(incoming_piece& piece) {
  operation* const op = piece.is_known ? piece.where.op : nullptr;
  const std::size_t bytes = piece.where.header.payload_bytes;
  piece.payload.view = {};  // a payload without a target is truncated to nothing
  const bool is_offered = (piece.where.header.flags & by_nic) != 0;
  if (is_on_device(op) && piece.where.target != nullptr && is_offered) {
    const mutable_view part{piece.where.target, bytes, op->view.kind, op->view.device};
    if (is_nic_accessible(part)) {
      piece.payload.view = part;
      piece.op = op;
      session_.pin(*op);
      return true;
    }
  }
  if (is_on_device(op)) {
    try {
      copier& by = copiers_->of(op->view);
      piece.slot = staging_in_.take(by.of(), bytes);
      if (piece.slot == nullptr) return false;
      piece.by = &by;
      piece.payload.view = {piece.slot, bytes};
    } catch (const error& why) {
      session_.fail_payload(*op, why);
    }
    return true;
  }
  if (!piece.is_known || piece.where.target == nullptr) return true;
  piece.payload.view = {piece.where.target, bytes};
  if (op != nullptr) {
    piece.op = op;
    session_.pin(*op);
  }
  return true;
}

void link::payload_came(incoming_piece& piece) {
  finish_payload(piece);
  post_payloads();
  pull_pieces();
  conclude();
}

/// The payload has been received, or failed.
void link::finish_payload(incoming_piece& piece) {
  const error_code result = piece.payload.result;
  const bool was_dropped =
      result == errc::message_truncated || result == asio::error::operation_aborted;
  operation* const op = piece.op;
  if (result && !was_dropped) {
    if (piece.is_known) session_.abandon(piece.where);
    if (!session_.is_over()) inner_failed(piece.payload);
  } else if (piece.is_known) {
    take_payload(piece);
  }
  close_incoming(piece);
  if (op != nullptr) session_.unpin(*op);
  if (piece.op == op) recycle(piece);
}

void link::take_payload(incoming_piece& piece) {
  const std::size_t bytes = piece.where.header.payload_bytes;
  if (!piece.payload.result && piece.payload.bytes != bytes) {
    if (piece.payload.bytes == 0) return session_.mark_unreadable(piece.where);
    session_.abandon(piece.where);
    return protocol_violation(
        fmt::format("a payload of {} bytes; expected {}", piece.payload.bytes, bytes));
  }
  operation* const op = piece.where.op;
  if (is_on_device(op) && !piece.payload.result) {
    if (piece.slot != nullptr) {
      copy_in(piece, *op, piece.where.target, bytes);
    } else {
      flush_nics(*op);
    }
  }
  session_.end(piece.where);
}

/// Makes what NICs have written into this view visible to later work of its device.
void link::flush_nics(operation& op) {
  try {
    copiers_->of(op.view).of().flush_rdma();
  } catch (const error& why) {
    session_.fail_payload(op, why);
  }
}

void link::close_incoming(incoming_piece& piece) noexcept {
  piece.is_known = false;
  std::erase(incoming_pieces_, &piece);
}

/// Cancels the inner receives of completed operations, to release their views early.
void link::release_views() noexcept {
  for (std::size_t i = 0; i < incoming_pieces_.size() && inner_ != nullptr; ++i) {
    incoming_piece& piece = *incoming_pieces_[i];
    // One that is not matched yet must stay, as its message would match the next one.
    if (piece.op != nullptr && piece.op->is_over() &&
        piece.payload.at == operation::phase::moving) {
      inner_->cancel(piece.payload);
    }
  }
}

/// Handles the close of the peer once all that it had sent has been received.
void link::conclude() {
  if (!peer_has_closed_ || is_over() || !incoming_pieces_.empty()) return;
  peer_has_closed_ = false;
  on_close();
}

}  // namespace tandem::devices
