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
struct handshake_facts;

/// One end of a TLS 1.3 connection without I/O. In: bytes from the network, and plain text to
/// send. Out: bytes for the network, and plain text of the authenticated peer.
class tls_session {
 public:
  enum class side : std::uint8_t { connects, accepts };
  enum class state : std::uint8_t {
    handshaking,  ///< the peer is not authenticated yet
    open,
    ended,  ///< the peer sent close_notify
    failed  ///< see `why`; the outgoing bytes are an alert for the peer
  };
  /// Enough for a handshake by a secret, and by a chain of several certificates.
  static constexpr std::size_t max_handshake_bytes = 16 * 1024;

  /// @par Errors `errc::limit_exceeded` where memory runs out.
  tls_session(std::shared_ptr<const credentials> with, side which);
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;
  ~tls_session();

  /// Takes bytes from the network. They are ignored after `failed` and `ended`.
  void receive(std::string_view bytes);
  /// Plain text for the peer; buffered until the handshake is done.
  void send(std::string_view plain);
  /// Bytes for the network, in order; to be taken after each call of the two above.
  std::string take_outgoing();
  /// Plain text of the peer, in order.
  std::string take_plain();

  state at() const noexcept { return state_; }
  /// What went wrong, as text for a person: "job secret mismatch".
  const std::string& why() const noexcept { return why_; }
  /// The first bytes of a peer that does not use TLS. They are not authenticated.
  const std::string& non_tls_bytes() const noexcept { return non_tls_bytes_; }

 private:
  void advance();
  void read();
  void write(std::string_view plain);
  void fail(std::string why);
  std::string last_error() const;

  std::shared_ptr<const credentials> credentials_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bio_st* from_network_ = nullptr;  // both are owned by `ssl_`
  bio_st* to_network_ = nullptr;
  state state_ = state::handshaking;
  std::size_t received_bytes_ = 0;
  const std::unique_ptr<handshake_facts> facts_;
  std::string pending_;
  std::string plain_;
  std::string why_;
  std::string non_tls_bytes_;
};

}  // namespace tandem::trust
