#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct bio_st;
struct ssl_st;

namespace tandem::trust {

class credentials;

/// One end of a TLS 1.3 connection without I/O: it is given what came from the network and what is
/// to be said, and tells what goes to the network and what was said by a peer that proved itself.
class tls_session {
 public:
  enum class side : std::uint8_t { connects, accepts };
  enum class state : std::uint8_t {
    handshaking,  ///< nothing that came is believed
    open,
    ended,  ///< the peer said that it says no more
    failed  ///< `why` says why; what is outgoing tells the peer
  };
  /// More than any handshake of a secret takes, and than one of a chain of some certificates.
  static constexpr std::size_t most_handshake_bytes = 16 * 1024;

  /// @par Errors `errc::limit_exceeded` without memory.
  tls_session(std::shared_ptr<const credentials> with, side which);
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;
  ~tls_session();

  /// Bytes from the network. After `failed` and `ended` they are ignored.
  void receive(std::string_view bytes);
  /// Waits in here until the handshake is done.
  void send(std::string_view plain);
  /// For the network, in order; ask after each of the two above.
  std::string take_outgoing();
  /// What the peer said, in order.
  std::string take_plain();

  state at() const noexcept { return state_; }
  /// What went wrong, as text for a person: "job secret mismatch".
  const std::string& why() const noexcept { return why_; }
  /// The peer's first bytes where they were no TLS; they are nobody's word for anything.
  const std::string& not_tls() const noexcept { return not_tls_; }

 private:
  void advance();
  void read();
  void write(std::string_view plain);
  void fail(std::string why);
  std::string last_error() const;

  std::shared_ptr<const credentials> credentials_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bio_st* from_network_ = nullptr;  // owned by `ssl_`, as the next
  bio_st* to_network_ = nullptr;
  state state_ = state::handshaking;
  std::size_t received_bytes_ = 0;
  bool other_job_ = false;
  std::string pending_;
  std::string plain_;
  std::string why_;
  std::string not_tls_;
};

}  // namespace tandem::trust
