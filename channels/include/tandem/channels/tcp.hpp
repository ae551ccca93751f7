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
  /// @param address  numeric; `port` 0 takes a free one. Beyond loopback only with a secret
  /// (`settings::secret_file`, `settings::job_secret`), which every peer then has to prove, or with
  /// `settings::insecure`.
  /// @par Errors `errc::address_in_use`, `bad_input`; `bad_option` where `settings::encrypt` has no
  ///   secret; those of `trust::job_secret`.
  listener(asio::any_io_executor executor, const std::string& address, std::uint16_t port,
           const settings& options = {});
  ~listener();
  listener(listener&&) noexcept;
  listener& operator=(listener&&) noexcept;

  std::uint16_t port() const noexcept;
  /// The next peer that speaks this protocol. Others are dropped, counted and logged; none may hold
  /// it up for longer than its hello takes.
  asio::awaitable<std::unique_ptr<channel>> accept();
  std::uint64_t strangers() const noexcept;  ///< connections that were dropped
  void close() noexcept;

 private:
  class state;
  std::shared_ptr<state> state_;
};

/// Connects to a listener. Tries again until `options.meet_timeout` while nobody listens there.
/// With a secret, both ends prove that they have the same; with `settings::encrypt`, the bytes of
/// the channel are encrypted as well, else they travel in the clear.
/// @par Errors `errc::unreachable`, `not_tandem`, `version_mismatch`, `timed_out`, `not_trusted`;
///   `bad_option` where one end encrypts and the other does not, or there is no secret to do it
///   with; those of `trust::job_secret`.
asio::awaitable<std::unique_ptr<channel>> connect(std::string host, std::uint16_t port,
                                                  settings options = {});

/// The ranks that met in `meeting`, connected by TCP when they first need each other. Addresses
/// travel through the store; so does the news of a lost rank. Where the store has a `data_key`,
/// every connection proves it and, with `settings::encrypt`, is encrypted with keys derived from
/// it.
///
/// A rank needs a file descriptor for each peer. Where the soft limit (RLIMIT_NOFILE) of the
/// process is too low for that it is raised, no further than needed, and logged (info).
/// @par Errors `errc::limit_exceeded` where the hard limit is too low, too: it says how many are
///   needed, and every rank hears it. `errc::bad_option` where `settings::encrypt` has no key. The
///   channel to a rank whose setting is another one fails with `bad_option`, on both.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options);

}  // namespace tandem::tcp
