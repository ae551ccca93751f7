#include "fuzz/targets.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tandem/channel.hpp>
#include <tandem/detail/crc32c.hpp>
#include <tandem/error.hpp>
#include <vector>

#include "fabric/hello.hpp"
#include "fuzz/rails_targets.hpp"
#include "fuzz/sealed_targets.hpp"
#include "fuzz/shm_targets.hpp"
#include "meeting_point.hpp"
#include "protocol/frame.hpp"
#include "protocol/session.hpp"
#include "rendezvous/store_protocol.hpp"
#include "security/credentials.hpp"
#include "security/tls_session.hpp"
#include "transports/tcp/frame_reader.hpp"

namespace tandem::fuzz {
namespace {

std::string_view text(bytes input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

/// Every decodable message round trips.
template <class Message, class Decode>
void read_message(std::string_view body, Decode decode) {
  const std::optional<Message> message = decode(body);
  if (!message) return;
  const std::string again = rendezvous::encode(*message);
  const std::string_view contents = std::string_view(again).substr(rendezvous::frame_header_bytes);
  const std::optional<Message> same = decode(contents);
  require(same.has_value() && rendezvous::encode(*same) == again);
}

/// The first byte selects the length of the fragments of the rest.
void store_wire(bytes input) {
  if (input.empty()) return;
  const std::size_t piece = 1 + static_cast<std::size_t>(input.front());
  rendezvous::frame_splitter splitter(rendezvous::max_hello_bytes);
  for (std::string_view rest = text(input.subspan(1)); !rest.empty();) {
    splitter.feed(rest.substr(0, piece));
    rest.remove_prefix(std::min(piece, rest.size()));
    while (const auto body = splitter.next()) {
      require(!body->empty() && body->size() <= rendezvous::max_hello_bytes);
      read_message<rendezvous::store_request>(*body, rendezvous::decode_request);
      read_message<rendezvous::store_reply>(*body, rendezvous::decode_reply);
    }
  }
  require(rendezvous::printable(splitter.rest()).find('\n') == std::string::npos);
}

/// With the given checksum and with the right one.
void hello(bytes input) {
  transport::hello decoded;
  require(transport::decode(input, decoded) <= transport::decode_status::damaged);
  require(transport::excerpt(input).find('\n') == std::string::npos);
  if (input.size() < transport::hello_bytes) return;
  transport::wire_hello wire;
  std::copy_n(input.begin(), wire.size(), wire.begin());
  transport::hello any;
  transport::wire_hello right;
  transport::encode(any, right);
  std::copy_n(right.begin(), 12, wire.begin());  // the magic word and the version
  protocol::put<std::uint32_t>(wire.data() + 92, crc32c(wire.data(), 92));
  if (transport::decode(wire, decoded) != transport::decode_status::complete) return;
  transport::encode(decoded, right);
  transport::hello same;
  require(transport::decode(right, same) == transport::decode_status::complete &&
          same.once == decoded.once && same.job == decoded.job && same.rail == decoded.rail);
  transport::validate_hello(decoded, any);
}

/// Frames with valid magic word, version and checksum, so that later checks are reached.
std::string frames_of(bytes input) {
  std::string wire;
  while (input.size() >= protocol::frame_bytes) {
    protocol::wire_frame one;
    std::copy_n(input.begin(), one.size(), one.begin());
    protocol::put<std::uint32_t>(one.data(), protocol::frame_magic);
    protocol::put<std::uint8_t>(one.data() + 4, protocol::protocol_version);
    protocol::put<std::uint32_t>(one.data() + 60, crc32c(one.data(), 60));
    input = input.subspan(one.size());
    wire.append(reinterpret_cast<const char*>(one.data()), one.size());
    const auto payload = protocol::take<std::uint32_t>(one.data() + 40);
    const bytes follows = input.first(std::min<std::size_t>(payload, input.size()));
    wire += text(follows);
    input = input.subspan(follows.size());
  }
  wire += text(input);
  return wire;
}

/// A session with pending receives and sends behind a socket reader.
void frames(bytes input) {
  constexpr std::size_t max_input_bytes = 32 * 1024;  // fits into any socket's buffer
  const std::string wire = frames_of(input.first(std::min(input.size(), max_input_bytes)));
  std::array<int, 2> ends{};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  require(::send(ends[0], wire.data(), wire.size(), 0) == static_cast<ssize_t>(wire.size()));
  ::close(ends[0]);
  std::array<std::array<char, 600>, 4> memory{};
  std::array<operation, 4> operations;
  protocol::session session({256, 1024, 2048, 64}, {0, 1, "fuzz"}, std::chrono::minutes(1));
  for (std::size_t i = 0; i < operations.size(); ++i) {
    operations[i].what = i % 2 == 0 ? operation::kind::recv : operation::kind::send;
    operations[i].flow = static_cast<flow_id>(i / 2);
    operations[i].view = mutable_view(memory[i].data(), memory[i].size());
    session.start(operations[i]);
  }
  const auto discard_output = [&session] {
    protocol::outgoing_frame out;
    for (int i = 0; i < 100 && session.next(out); ++i) session.sent(out);
  };
  discard_output();
  tcp::frame_reader reader(session);
  sealed::stream from(ends[1], {});
  using outcome = tcp::frame_reader::outcome;
  while (reader.read_some(from) == outcome::more) discard_output();
  ::close(ends[1]);
  reader.drop();
  session.fail(error(errc::channel_closed, "the end"));
  std::size_t ended = 0;
  while (operation* const op = session.pop_any()) {
    require(op->bytes <= 600);
    ++ended;
  }
  require(ended == operations.size());
}

void tls(bytes input) {
  using trust::tls_session;
  static const auto ours =
      trust::credentials::by_secret(secret(std::string_view("a secret of the fuzzer")), "job");
  for (const auto side : {tls_session::side::accepts, tls_session::side::connects}) {
    tls_session session(ours, side);
    session.take_outgoing();
    session.send("nobody may read this");
    session.receive(text(input));
    require(session.at() != tls_session::state::open && session.take_plain().empty());
    require(session.take_outgoing().size() < 64 * 1024);
  }
}

/// As it is, and with the right magic word, version and checksum, so that the later checks are
/// reached.
void unique_id(bytes input) {
  nccl_abi::unique_id id{};
  std::memcpy(id.internal, input.data(), std::min(input.size(), sizeof id.internal));
  const auto read = [&id] {
    try {
      const nccl_abi::meeting_point point = nccl_abi::decode(id);
      const nccl_abi::meeting_point same = nccl_abi::decode(nccl_abi::encode(point));
      require(same.address == point.address && same.port == point.port && same.port != 0);
      require(same.job == point.job && same.key == point.key);
      require(point.job_text().size() == 32 && point.key_text().size() == 64);
      return true;
    } catch (const error& refused) {
      require(std::string_view(refused.what()).find('\n') == std::string_view::npos);
      return false;
    }
  };
  read();
  const nccl_abi::unique_id right = nccl_abi::encode({});
  std::memcpy(id.internal, right.internal, 9);
  id.internal[9] = id.internal[9] % 2 == 0 ? 4 : 6;
  id.internal[11] |= 1;  // of the port
  const std::uint32_t crc = crc32c(reinterpret_cast<const std::byte*>(id.internal), 76);
  for (int i = 0; i < 4; ++i) id.internal[76 + i] = static_cast<char>(crc >> (8 * i) & 0xff);
  require(read());
}

constexpr std::array<target, 9> all{{{"store_wire", store_wire},
                                     {"hello", hello},
                                     {"frames", frames},
                                     {"tls", tls},
                                     {"lanes", lanes},
                                     {"published_rails", published_rails},
                                     {"shared_memory", shared_memory},
                                     {"records", records},
                                     {"unique_id", unique_id}}};

}  // namespace

std::span<const target> targets() noexcept {
  return all;
}

}  // namespace tandem::fuzz
