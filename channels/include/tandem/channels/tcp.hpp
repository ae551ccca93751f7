#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tandem/channel.hpp>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>

/// Channels over one TCP connection.
namespace tandem::tcp {

/// Accepts channels at an address. Close or destroy it to stop; pending accepts end with
/// `errc::channel_closed`.
class listener {
 public:
  /// @param address  numeric; `port` 0 takes a free one. An address other than loopback needs a job
  /// secret (`settings::secret_file`, `settings::job_secret`), which every peer then has to prove,
  /// or `settings::insecure`.
  /// @par Errors `errc::address_in_use`, `bad_input`; `bad_option` where `settings::encrypt` is set
  ///   without a secret; those of `trust::job_secret`.
  listener(asio::any_io_executor executor, const std::string& address, std::uint16_t port,
           const settings& options = {});
  ~listener();
  listener(listener&&) noexcept;
  listener& operator=(listener&&) noexcept;

  std::uint16_t port() const noexcept;
  /// The next peer that completes the handshake. Other connections are dropped, counted and logged;
  /// none delays it for longer than the handshake timeout.
  asio::awaitable<std::unique_ptr<channel>> accept();
  std::uint64_t strangers() const noexcept;  ///< connections dropped in the handshake
  void close() noexcept;

 private:
  class state;
  std::shared_ptr<state> state_;
};

/// Connects to a listener. Retries until `options.meet_timeout` while nothing listens there. With a
/// secret, both ends prove that they have the same; with `settings::encrypt`, the channel is
/// encrypted as well, otherwise its bytes travel in the clear.
/// @par Errors `errc::unreachable`, `not_tandem`, `version_mismatch`, `timed_out`, `not_trusted`;
///   `bad_option` where one end encrypts and the other does not, or where there is no secret to
///   encrypt with; those of `trust::job_secret`.
asio::awaitable<std::unique_ptr<channel>> connect(std::string host, std::uint16_t port,
                                                  settings options = {});

/// Connects the ranks of `meeting` by TCP, each pair on first use. The store distributes the
/// addresses and reports lost ranks. Where the store has a `data_key`, every connection is
/// authenticated with it and, with `settings::encrypt`, encrypted with keys derived from it.
///
/// A rank needs one file descriptor for each peer. Where the soft limit (RLIMIT_NOFILE) of the
/// process is too low for that, it is raised, no further than needed, and logged (info).
/// @par Errors `errc::limit_exceeded` where the hard limit is too low, too: it names the number
///   needed and is reported to every rank. `errc::bad_option` where `settings::encrypt` is set
///   without a key. The channel between two ranks whose settings differ fails with `bad_option`, on
///   both.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options);

}  // namespace tandem::tcp
