#include "transports/rails/reassembly.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tandem/detail/crc32c.hpp>

namespace tandem::rails {
namespace {

using protocol::frame_type;

// A report is due after so many packets, whatever their size.
constexpr std::uint32_t packets_per_report = 64;
constexpr std::uint64_t at_once = 0;  // bytes

}  // namespace

reassembly::outcome reassembly::begin(const envelope& header, const protocol::frame& f,
                                      inbound*& into) {
  const receive_window::status status = arrived_.status_of(header.number);
  if (status == receive_window::status::beyond) {
    return refuse(fmt::format("packet {} is beyond the window", header.number));
  }
  if (status == receive_window::status::received) {
    ++repeated_;
    report_due_ = true;
    return drop_payload(header, f, into);
  }
  if (inbound* const before = find(header.number)) {
    if (before->on_lane) return refuse(fmt::format("packet {} is on two lanes", header.number));
    return begin_again(*before, f, into);
  }
  if (discarding_) return drop_payload(header, f, into);
  const bool is_chunk = f.type == frame_type::data;
  if (is_chunk != (header.order == 0)) return refuse("a chunk with an order, or a frame without");
  if (is_chunk) {
    inbound& in = allocate(header, f);
    if (session_.begin(f, in.where)) return expect_payload(in, into);
    free(in);
    return refuse(session_.violation());
  }
  const std::int32_t distance = ahead(header.order, next_order_);
  if (distance < 0 || distance >= static_cast<std::int32_t>(max_packets)) {
    return refuse(fmt::format("a frame of order {}, expected {}", header.order, next_order_));
  }
  return distance == 0 ? begin_ordered(header, f, into) : begin_early(header, f, into);
}

reassembly::outcome reassembly::begin_ordered(const envelope& header, const protocol::frame& f,
                                              inbound*& into) {
  if (f.type != frame_type::eager) {
    if (!handle(f)) return outcome::violated;
    arrive(header.number, 0, f.type == frame_type::close ? at_once : bytes_per_report);
    advance_order();
    return deliver_early() ? outcome::taken : outcome::violated;
  }
  inbound& in = allocate(header, f);
  if (!session_.begin(f, in.where)) {
    free(in);
    return refuse(session_.violation());
  }
  // The session matches messages when they begin, so the next may begin before this one is
  // complete.
  advance_order();
  const outcome result = expect_payload(in, into);
  return deliver_early() ? result : outcome::violated;
}

reassembly::outcome reassembly::begin_early(const envelope& header, const protocol::frame& f,
                                            inbound*& into) {
  if (early_.contains(header.order)) return refuse("two frames of the same order");
  if (f.type != frame_type::eager) {
    early_[header.order] = {f, nullptr};
    arrive(header.number, 0, bytes_per_report);
    return outcome::taken;
  }
  if (f.payload_bytes > limits_.eager_bytes ||
      early_bytes_ + f.payload_bytes > limits_.credit_bytes) {
    return refuse(fmt::format("an eager message of {} bytes exceeds the credits", f.payload_bytes));
  }
  inbound& in = allocate(header, f);
  in.as = inbound::use::early;
  in.early = std::make_unique_for_overwrite<std::byte[]>(f.payload_bytes);
  in.where.target = in.early.get();
  early_bytes_ += f.payload_bytes;
  return expect_payload(in, into);
}

reassembly::outcome reassembly::begin_again(inbound& in, const protocol::frame& f, inbound*& into) {
  if (f.type != in.frame.type || f.payload_bytes != in.frame.payload_bytes) {
    return refuse("a packet was sent again with other contents");
  }
  in.received = 0;
  in.crc = 0;
  in.on_lane = true;
  into = &in;
  return outcome::expect_payload;
}

/// The payload follows on the stream and has to be read.
reassembly::outcome reassembly::drop_payload(const envelope& header, const protocol::frame& f,
                                             inbound*& into) {
  if (!protocol::carries_payload(f.type)) {
    if (arrived_.status_of(header.number) == receive_window::status::missing) {
      arrive(header.number, 0, bytes_per_report);
    }
    return outcome::taken;
  }
  into = &allocate(header, f);
  into->as = inbound::use::dropped;
  return outcome::expect_payload;
}

/// A payload for a view that the CPU cannot access goes to a bounce buffer, unless a NIC has
/// written it.
reassembly::outcome reassembly::expect_payload(inbound& in, inbound*& into) {
  const operation* const op = in.where.op;
  if (op != nullptr && op->view.kind != memory_kind::host) {
    if (protocol::is_placed(in.frame)) {
      in.frame.payload_crc = 0;
    } else {
      in.bounce_buffer = std::make_unique_for_overwrite<std::byte[]>(in.frame.payload_bytes);
    }
  }
  open_.push_back(&in);
  into = &in;
  return outcome::expect_payload;
}

void reassembly::add_received(inbound& in, std::size_t bytes) noexcept {
  if (in.frame.payload_crc != 0 && in.target() != nullptr) {
    in.crc = crc32c(in.target() + in.received, bytes, in.crc);
  }
  in.received += bytes;
}

reassembly::ending reassembly::end(inbound& in) {
  const bool checked = in.frame.payload_crc != 0 && in.target() != nullptr;
  if (checked && in.crc != in.frame.payload_crc) {
    ++damaged_count_;
    why_ = fmt::format("checksum mismatch in packet {}", in.header.number);
    return ending::damaged;
  }
  bool good = true;
  switch (in.as) {
    case inbound::use::direct:
      if (in.bounce_buffer) fill(in.where, in.bounce_buffer.get());
      session_.end(in.where);
      arrive(in);
      break;
    case inbound::use::early:
      arrive(in);
      early_[in.header.order] = {in.frame, std::move(in.early)};
      good = deliver_early();
      break;
    case inbound::use::dropped:
      if (arrived_.status_of(in.header.number) == receive_window::status::missing) arrive(in);
      report_due_ = true;
      break;
  }
  free(in);
  return good ? ending::good : ending::violated;
}

void reassembly::drop(inbound& in) {
  const bool begun_in_order = in.as == inbound::use::direct && in.frame.type == frame_type::eager;
  if (begun_in_order) {
    in.on_lane = false;
    return;
  }
  if (in.as == inbound::use::direct) session_.drop(in.where);
  if (in.as == inbound::use::early) early_bytes_ -= in.frame.payload_bytes;
  free(in);
}

void reassembly::forget() {
  discarding_ = true;
  early_.clear();
  const std::vector<inbound*> open = open_;
  for (inbound* in : open) {
    in->as = inbound::use::dropped;
    in->where = {};
    in->early.reset();
    if (!in->on_lane) free(*in);
  }
}

bool reassembly::handle(const protocol::frame& f) {
  if (discarding_ || peer_failed_) return true;
  if (f.type == frame_type::close && f.flags == protocol::after_error) {
    peer_failed_ = true;
    return true;
  }
  if (session_.handle(f)) return true;
  refuse(session_.violation());
  return false;
}

bool reassembly::deliver_early() {
  for (auto found = early_.find(next_order_); found != early_.end();
       found = early_.find(next_order_)) {
    early_frame next = std::move(found->second);
    early_.erase(found);
    advance_order();
    if (!deliver(next)) return false;
  }
  return true;
}

bool reassembly::deliver(early_frame& next) {
  if (next.header.type != frame_type::eager) return handle(next.header);
  early_bytes_ -= next.header.payload_bytes;
  protocol::incoming_payload where;
  if (!session_.begin(next.header, where)) {
    refuse(session_.violation());
    return false;
  }
  fill(where, next.payload.get());
  session_.end(where);
  return true;
}

void reassembly::fill(protocol::incoming_payload& where, const std::byte* from) {
  const std::size_t bytes = where.header.payload_bytes;
  if (where.target == nullptr || bytes == 0) return;
  if (where.op == nullptr || where.op->view.kind == memory_kind::host) {
    std::memcpy(where.target, from, bytes);
    return;
  }
  const mutable_view& all = where.op->view;
  try {
    registrar_->store(from, {where.target, bytes, all.kind, all.device});
  } catch (const error& why) {
    session_.fail_payload(*where.op, why);
  }
}

/// The last chunk of a message is reported at once, as it completes the sender's operation.
void reassembly::arrive(const inbound& in) {
  const bool is_chunk = in.frame.type == frame_type::data;
  std::uint64_t max_unreported_bytes = is_chunk ? chunk_bytes_per_report : bytes_per_report;
  if (is_chunk && (shared_ || session_.has_done())) max_unreported_bytes = at_once;
  arrive(in.header.number, in.frame.payload_bytes, max_unreported_bytes);
}

void reassembly::arrive(std::uint32_t number, std::uint64_t bytes,
                        std::uint64_t max_unreported_bytes) {
  arrived_.add(number);
  ++unreported_packets_;
  unreported_bytes_ += bytes;
  if (unreported_bytes_ >= max_unreported_bytes || unreported_packets_ >= packets_per_report)
    report_due_ = true;
}

void reassembly::advance_order() noexcept {
  if (++next_order_ == 0) ++next_order_;
}

inbound* reassembly::find(std::uint32_t number) const noexcept {
  const auto same = [number](const inbound* in) { return in->header.number == number; };
  const auto found = std::find_if(open_.begin(), open_.end(), same);
  return found == open_.end() ? nullptr : *found;
}

reassembly::outcome reassembly::refuse(std::string why) {
  why_ = std::move(why);
  return outcome::violated;
}

inbound& reassembly::allocate(const envelope& header, const protocol::frame& f) {
  if (free_.empty()) {
    all_.push_back(std::make_unique<inbound>());
    free_.push_back(all_.back().get());
  }
  inbound& in = *free_.back();
  free_.pop_back();
  in = {};
  in.header = header;
  in.frame = f;
  return in;
}

void reassembly::free(inbound& in) {
  std::erase(open_, &in);
  in.early.reset();
  in.bounce_buffer.reset();
  free_.push_back(&in);
}

}  // namespace tandem::rails
