#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tandem/error.hpp>
#include <variant>
#include <vector>

namespace tandem::rendezvous {

/// The wire protocol of the store. All integers are little-endian. With a secret or a certificate
/// everything is inside a TLS 1.3 connection.
///
/// Opening, 8 bytes, sent once and first in each direction. Its layout is the same in every
/// version, so that any two versions can report a mismatch. The client sends first; the server
/// replies only to an opening of Tandem and, where it has no secret, to a TLS handshake.
///
///   offset  type     field
///   0       6 bytes  "tandem"
///   6       u16      version of everything below
///
/// Then frames:
///
///   0       u32      bytes after this field: 1 to the limit
///   4       u8       kind
///   5                fields, in this order; text = u32 bytes + bytes; list = u32 items + items
///
///   client to server                     | server to client
///   1 hello   i32 rank, i32 size,        | 64 accepted
///             u32 limit_ms, u32 left_ms, | 65 refused   error
///             text job, u16 port         | 66 started   text data_key, list of i32 rank,
///                                        |              list of i32 port
///   2 set     u64 id, text key,          | 67 done      u64 id
///             text value                 | 68 values    u64 id, list of text
///   3 get     u64 id, u32 limit_ms,      | 69 number    u64 id, i64 value
///             list of text               | 70 failed    u64 id, error
///   4 add     u64 id, text key,          | 71 notice    error
///             i64 amount                 | 72 leaving
///   5 report  error                      |
///   6 leave                              |
///
///   error = u8 category (0 tandem, 1 system), i32 code, i32 rank, i32 peer, i64 bytes_done, i64
///   bytes_total,
///           text rail, text phase, text detail, text advice
inline constexpr std::uint16_t store_version = 3;
inline constexpr std::size_t opening_bytes = 8;
inline constexpr std::size_t frame_header_bytes = 4;
/// The longest frame of a client after its hello, and before.
inline constexpr std::size_t max_frame_bytes = 1024 * 1024;
inline constexpr std::size_t max_hello_bytes = 1024;
/// The longest frame of the server: a reply may hold the values of many keys.
inline constexpr std::size_t max_reply_bytes = 16 * 1024 * 1024;

struct hello_request {
  int rank = 0;
  int size = 0;
  std::uint32_t limit_ms = 0;  ///< timeout of this rank for joining the job
  std::uint32_t left_ms = 0;   ///< what is left of it
  std::string job;
  std::uint16_t meeting_port = 0;  ///< in a shrunk job: where this rank listens for the next one
};
struct set_request {
  std::uint64_t id = 0;
  std::string key;
  std::string value;
};
struct get_request {
  std::uint64_t id = 0;
  std::uint32_t limit_ms = 0;
  std::vector<std::string> keys;
};
struct add_request {
  std::uint64_t id = 0;
  std::string key;
  std::int64_t amount = 0;
};
struct report_request {
  error reason;
};
struct leave_request {};
using store_request = std::variant<hello_request, set_request, get_request, add_request,
                                   report_request, leave_request>;

struct accepted_reply {};  ///< the hello is accepted; other ranks may be missing
struct refused_reply {     ///< the hello is refused; the server closes
  error reason;
};
struct started_reply {       ///< all ranks have joined
  std::string data_key;      ///< authenticates data connections; empty without trust
  std::vector<int> members;  ///< of a shrunk job: their ranks before, in the order of the new ones
  std::vector<int> ports;    ///< their meeting ports
};
struct done_reply {
  std::uint64_t id = 0;
};
struct values_reply {
  std::uint64_t id = 0;
  std::vector<std::string> values;
};
struct number_reply {
  std::uint64_t id = 0;
  std::int64_t value = 0;
};
struct failed_reply {
  std::uint64_t id = 0;
  error reason;
};
struct notice_reply {  ///< the job has failed
  error reason;
};
struct leaving_reply {};  ///< rank 0 has left: the close that follows is no failure
using store_reply =
    std::variant<accepted_reply, refused_reply, started_reply, done_reply, values_reply,
                 number_reply, failed_reply, notice_reply, leaving_reply>;

std::string encode_opening(std::uint16_t version = store_version);
/// Whether the bytes are a prefix of the opening of any version.
bool is_opening(std::string_view so_far);
/// A complete frame, including its length. Texts of an error are truncated to 1024 bytes.
std::string encode(const store_request& request);
std::string encode(const store_reply& reply);
/// Decodes the kind and fields of a frame, without its length. Empty: a protocol violation.
std::optional<store_request> decode_request(std::string_view body);
std::optional<store_reply> decode_reply(std::string_view body);

/// Received bytes for an error text: at most 32 characters, unprintable ones as dots.
std::string printable(std::string_view bytes);

/// Splits a byte stream into the opening and frames; buffers at most one frame and one read.
class frame_splitter {
 public:
  enum class state {
    opening,        ///< the opening is not complete
    open,           ///< frames follow
    foreign,        ///< not an opening of Tandem
    other_version,  ///< the opening of another version
    broken          ///< an empty frame, or one longer than the limit
  };

  explicit frame_splitter(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  void set_limit(std::size_t limit_bytes) { limit_bytes_ = limit_bytes; }
  void feed(std::string_view bytes);
  /// The next frame's kind and fields; valid until the next call of `feed`. Empty: more bytes are
  /// needed, or the stream is not `open`.
  std::optional<std::string_view> next();
  state at() const noexcept { return state_; }
  std::uint16_t version() const noexcept { return version_; }
  /// Received bytes that are not consumed yet.
  std::string_view rest() const { return std::string_view(buffer_).substr(begin_); }
  bool silent() const noexcept { return state_ == state::opening && buffer_.empty(); }

 private:
  void check_opening();

  std::size_t limit_bytes_;
  state state_ = state::opening;
  std::uint16_t version_ = 0;
  std::string buffer_;
  std::size_t begin_ = 0;
};

/// A reported reason as this rank sees it: where another rank has given up this one, the error
/// names that rank, as this one still runs.
error reason_at(int rank, const error& reported);

}  // namespace tandem::rendezvous
