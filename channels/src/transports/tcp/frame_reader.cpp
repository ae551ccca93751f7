#include "transports/tcp/frame_reader.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tandem::tcp {

frame_reader::outcome frame_reader::read_some(sealed::stream& from) {
  static thread_local std::array<std::byte, 64 * 1024> dropped;
  std::array<iovec, 2> parts;
  std::size_t count = 0;
  bool stages = true;
  if (receiving_payload_) {
    const std::size_t left = payload_.header.payload_bytes - payload_.received;
    if (payload_.target != nullptr) {
      parts[count++] = {payload_.target + payload_.received, left};
    } else {
      parts[count++] = {dropped.data(), std::min(left, dropped.size())};
    }
    stages = parts[0].iov_len == left;
  }
  if (stages) parts[count++] = {staging_.data() + staged_, max_staged_ - staged_};

  const ssize_t n = from.receive(std::span(parts).first(count));
  if (n > 0) {
    const auto bytes = static_cast<std::size_t>(n);
    const outcome result = consume(bytes);
    if (result != outcome::more) return result;
    std::size_t wanted = parts[0].iov_len;
    if (count == 2) wanted += parts[1].iov_len;
    return bytes == wanted || from.holds_more() ? outcome::more : outcome::drained;
  }
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return outcome::drained;
  if (n < 0 && errno == EINTR) return outcome::more;
  const bool is_forged = n < 0 && errno == EBADMSG;
  is_ack_timeout_ = n < 0 && (errno == ETIMEDOUT || errno == EHOSTUNREACH);
  why_ = n == 0 ? "its connection ended without a close frame" : from.describe(errno);
  return is_forged ? outcome::protocol_violation : outcome::ended;
}

frame_reader::outcome frame_reader::consume(std::size_t bytes) {
  if (receiving_payload_) {
    const std::size_t left = payload_.header.payload_bytes - payload_.received;
    const std::size_t of_payload = std::min(bytes, left);
    payload_.received += of_payload;
    bytes -= of_payload;
    if (of_payload == left) finish_payload();
  }
  staged_ += bytes;
  return parse_staged();
}

frame_reader::outcome frame_reader::parse_staged() {
  std::size_t at = 0;
  outcome result = outcome::more;
  while (staged_ - at >= protocol::frame_bytes) {
    result = take_frame(staging_.data() + at);
    if (result != outcome::more) break;
    at += protocol::frame_bytes;
    if (!receiving_payload_) continue;
    const std::size_t here = std::min<std::size_t>(staged_ - at, payload_.header.payload_bytes);
    if (payload_.target != nullptr && here > 0) {
      std::memcpy(payload_.target, staging_.data() + at, here);
    }
    payload_.received = here;
    at += here;
    if (here == payload_.header.payload_bytes) finish_payload();
  }
  staged_ -= at;
  if (staged_ > 0 && at > 0) std::memmove(staging_.data(), staging_.data() + at, staged_);
  return result;
}

frame_reader::outcome frame_reader::take_frame(const std::byte* at) {
  const auto header = std::span<const std::byte, protocol::frame_bytes>(at, protocol::frame_bytes);
  const std::optional<protocol::frame> f = protocol::decode(header, why_);
  if (!f) return outcome::protocol_violation;
  if (protocol::carries_payload(f->type)) {
    const bool is_long = protocol::frame_bytes + f->payload_bytes > staging_bytes;
    max_staged_ = is_long ? staging_bytes_of_long : staging_bytes;
    receiving_payload_ = session_.begin(*f, payload_);
    if (receiving_payload_) return outcome::more;
    why_ = session_.violation();
    return outcome::protocol_violation;
  }
  if (f->type == protocol::frame_type::close && f->flags == protocol::after_error) {
    return outcome::peer_failed;
  }
  if (!session_.handle(*f)) {
    why_ = session_.violation();
    return outcome::protocol_violation;
  }
  return session_.received_close() ? outcome::close : outcome::more;
}

void frame_reader::finish_payload() {
  receiving_payload_ = false;
  session_.end(payload_);
}

}  // namespace tandem::tcp
