#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <tandem/error.hpp>
#include <tandem/launch.hpp>
#include <tandem/secret.hpp>
#include <tandem/settings.hpp>
#include <vector>

namespace tandem {

namespace asio = boost::asio;

/// The small key-value store in which ranks meet: rank 0 serves it, every rank is a client of it.
///
/// Its connections double as the job's pulse: when a rank's process ends, or its store is
/// destroyed, without `leave`, every other rank hears `lost(rank)` within milliseconds; when rank 0
/// is gone, all hear `lost(0)`. A host that vanishes is noticed in about 20 s. The first cause
/// wins: all ranks hear the same one, once, and requests fail with it from then on.
///
/// @par Executor  Everything on the executor it was made with: one thread, or a strand. The store
///   is destroyed before its execution context. Any number of requests may be under way.
/// @par Errors  `tandem::error`, one line each. Beside those named below: `peer_lost` or what was
///   reported, once the job has failed; `peer_closed` once rank 0 has left; `channel_closed` once
///   this rank has; `timed_out` where rank 0 does not answer; `limit_exceeded` beyond 1 MiB a
///   message, 16 MiB a batch of values, 1 KiB a key, a million keys or 256 MiB in all.
/// @par Cancellation  Terminal, at any time: a request that was sent may still take effect.
class store {
 public:
  using lost_handler = std::function<void(const error& reason)>;

  /// Joins the job: rank 0 listens at `who.address` and `who.port`, all connect (again and again
  /// where rank 0 comes later), and all wait until `size` ranks are there. A rank that is refused
  /// does not disturb the others.
  ///
  /// With a secret or certificates in `options`, all of it inside TLS 1.3: who does not prove
  /// himself within 5 s and 16 KiB is dropped, counted and logged, and disturbs nobody. Every rank
  /// of a job has the same, or none has any.
  /// @par Errors within `options.meet_timeout`: `rank_missing` (names them; same on every rank that
  ///   came), `rank_taken`, `size_mismatch`, `job_mismatch`, `address_in_use`, `unreachable`,
  ///   `not_tandem`, `version_mismatch`, `not_trusted`; `peer_lost` where a rank that had come is
  ///   gone; `bad_input` for a place that is none, an address that is not rank 0's machine's, and
  ///   one beyond loopback without a secret unless `options.insecure`; `limit_exceeded` where this
  ///   process may have too few file descriptors, of which rank 0 needs one for each rank. A soft
  ///   limit that is too low is raised.
  static asio::awaitable<std::shared_ptr<store>> meet(const launch_info& who,
                                                      const settings& options);

  virtual ~store() = default;
  virtual const launch_info& who() const noexcept = 0;
  /// The local address through which this rank reached rank 0: a sensible address to publish.
  virtual std::string local_address() const = 0;
  /// 32 random bytes of this life of the job, the same on every rank, and known to nobody who has
  /// not proven himself to the store: with them connections of ranks prove themselves. Empty where
  /// the job has neither secret nor certificates.
  virtual secret data_key() const = 0;

  /// Replaces the value of the key. Over when rank 0 has it.
  virtual asio::awaitable<void> set(std::string key, std::string value) = 0;
  /// The values of all keys in one round trip, waiting until all are there or the deadline passes
  /// (`timed_out`: names the keys that never came).
  virtual asio::awaitable<std::vector<std::string>> get(std::vector<std::string> keys,
                                                        std::chrono::milliseconds limit) = 0;
  /// Adds to a counter (0 at first) and returns the new value. Counters are apart from the values
  /// of `get`.
  virtual asio::awaitable<std::int64_t> add(std::string key, std::int64_t amount) = 0;

  /// Called once, when a rank is lost or some rank reported a failure, this one included; also when
  /// that was before the handler was set. `reason.context().peer` is the rank to blame. It must not
  /// throw; it may destroy the store.
  virtual void on_lost(lost_handler handler) = 0;
  /// Tells every rank that the job cannot go on and why. The first report of the job wins; one that
  /// blames no peer blames this rank. Never blocks; arrives even if the process exits next.
  virtual void report(const error& reason) noexcept = 0;
  /// An orderly goodbye: nobody takes what comes next for a loss. Never blocks; arrives even if the
  /// process exits next. The server of rank 0 stays until all have left or the store is destroyed.
  virtual void leave() noexcept = 0;
};

}  // namespace tandem
