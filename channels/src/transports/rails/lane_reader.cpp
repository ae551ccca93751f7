#include "transports/rails/lane_reader.hpp"

#include <algorithm>
#include <cstring>
#include <tandem/detail/crc32c.hpp>

namespace tandem::rails {

std::span<const iovec> lane_reader::buffers() {
  static thread_local std::array<std::byte, 64 * 1024> dropped;
  std::size_t count = 0;
  bool stages = true;
  if (incoming_ != nullptr) {
    const std::size_t left = incoming_->missing_bytes();
    std::byte* const target = incoming_->target();
    const bool has_checksum = incoming_->frame.payload_crc != 0;
    if (target != nullptr) {
      parts_[count++] = {target + incoming_->received,
                         has_checksum ? std::min(left, piece_bytes) : left};
    } else {
      parts_[count++] = {dropped.data(), std::min(left, dropped.size())};
    }
    stages = parts_[0].iov_len == left;
  }
  if (stages) parts_[count++] = {staging_.data() + staged_, staging_bytes - staged_};
  return std::span(parts_).first(count);
}

lane_reader::outcome lane_reader::advance(std::size_t bytes, core::time_point now) {
  core_.on_receive(lane_, now);
  if (incoming_ != nullptr) {
    const std::size_t landed_bytes = std::min(bytes, parts_[0].iov_len);
    bytes -= landed_bytes;
    const outcome result = receive_payload(landed_bytes);
    if (result != outcome::good) return result;
  }
  staged_ += bytes;
  return parse(now);
}

lane_reader::outcome lane_reader::receive_payload(std::size_t bytes) {
  core_.add_received(*incoming_, bytes);
  if (incoming_->missing_bytes() > 0) return outcome::good;
  incoming_ = nullptr;
  switch (core_.end(lane_)) {
    case reassembly::ending::good:
      return outcome::good;
    case reassembly::ending::damaged:
      return fail(outcome::broken, core_.why());
    default:
      return fail(outcome::violated, core_.why());
  }
}

lane_reader::outcome lane_reader::parse(core::time_point now) {
  std::size_t at = 0;
  outcome result = outcome::good;
  bool progressed = true;
  while (result == outcome::good && progressed) {
    const std::span<const std::byte> staged = std::span(staging_).first(staged_).subspan(at);
    std::size_t used = 0;
    if (incoming_ == nullptr) {
      result = take_head(staged, used, now);
      progressed = used > 0;
    } else {
      used = std::min(staged.size(), incoming_->missing_bytes());
      if (incoming_->target() != nullptr && used > 0) {
        std::memcpy(incoming_->target() + incoming_->received, staged.data(), used);
      }
      progressed = used > 0 || incoming_->missing_bytes() == 0;
      if (progressed) result = receive_payload(used);
    }
    at += used;
  }
  staged_ -= at;
  if (staged_ > 0 && at > 0) std::memmove(staging_.data(), staging_.data() + at, staged_);
  return result;
}

lane_reader::outcome lane_reader::take_head(std::span<const std::byte> staged, std::size_t& used,
                                            core::time_point now) {
  if (staged.size() < envelope_bytes) return outcome::good;
  std::string why;
  const auto e = decode(staged.first<envelope_bytes>(), why);
  if (!e) return fail(outcome::broken, std::move(why));
  if (e->kind == envelope_kind::packet) return take_packet(*e, staged, used);
  const std::size_t whole = envelope_bytes + e->body_bytes;
  if (staged.size() < whole) return outcome::good;
  used = whole;
  const auto body = staged.subspan(envelope_bytes, e->body_bytes);
  if (e->body_bytes > 0 && crc32c(body.data(), body.size()) != e->order) {
    return fail(outcome::broken, "report checksum mismatch");
  }
  if (core_.take(lane_, *e, body, now)) return outcome::good;
  return fail(outcome::violated, core_.why());
}

lane_reader::outcome lane_reader::take_packet(const envelope& e, std::span<const std::byte> staged,
                                              std::size_t& used) {
  if (staged.size() < envelope_bytes + protocol::frame_bytes) return outcome::good;
  used = envelope_bytes + protocol::frame_bytes;
  std::string why;
  const auto f = protocol::decode(staged.subspan<envelope_bytes, protocol::frame_bytes>(), why);
  if (!f) return fail(outcome::broken, std::move(why));
  if (core_.begin(lane_, e, *f, incoming_) == reassembly::outcome::violated) {
    return fail(outcome::violated, core_.why());
  }
  return protocol::is_placed(*f) && incoming_ != nullptr ? receive_payload(f->payload_bytes)
                                                         : outcome::good;
}

lane_reader::outcome lane_reader::fail(outcome how, std::string why) {
  why_ = std::move(why);
  return how;
}

}  // namespace tandem::rails
