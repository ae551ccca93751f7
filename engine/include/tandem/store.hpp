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

#pragma GCC visibility push(default)

namespace tandem {

namespace asio = boost::asio;

/// The key-value store for rendezvous: rank 0 serves it, every rank is a client.
///
/// Its connections also detect failures (liveness): when a rank's process ends, or its store is
/// destroyed, without `leave`, every other rank receives `lost(rank)` within milliseconds; when
/// rank 0 is lost, all receive `lost(0)`. A host that vanishes is detected in about 20 s. The first
/// cause wins: all ranks receive the same one, once, and later requests fail with it.
///
/// @par Executor  All calls and completions on the executor it was made with: one thread, or a
///   strand. Destroy the store before its execution context. Any number of requests may be pending.
/// @par Errors  `tandem::error`, one line each. In addition to those named below: `peer_lost` or
///   the reported error once the job has failed; `peer_closed` once rank 0 has left;
///   `channel_closed` once this rank has; `timed_out` if rank 0 does not answer; `limit_exceeded`
///   beyond 1 MiB per message, 16 MiB per batch of values, 1 KiB per key, a million keys or 256 MiB
///   in total.
/// @par Cancellation  Terminal, at any time: a request that was sent may still take effect.
class store {
 public:
  using lost_handler = std::function<void(const error& reason)>;

  /// Joins the job: rank 0 listens at `who.address` and `who.port`, all ranks connect (retrying
  /// until rank 0 listens), and all wait until `size` ranks have joined. A refused rank does not
  /// affect the others.
  ///
  /// With a secret or certificates in `options`, all traffic uses TLS 1.3: a connection that does
  /// not authenticate within 5 s and 16 KiB is dropped, counted and logged, without effect on
  /// others. Either every rank of a job has the secret or a certificate, or none has.
  /// @par Errors within `options.meet_timeout`: `rank_missing` (names them; the same on every rank
  ///   that joined), `rank_taken`, `size_mismatch`, `job_mismatch`, `address_in_use`,
  ///   `unreachable`, `not_tandem`, `version_mismatch`, `not_trusted`; `peer_lost` if a rank that
  ///   had joined is lost; `bad_input` for an invalid rank or size, an address that does not belong
  ///   to rank 0's machine, and one beyond loopback without a secret unless `options.insecure`;
  ///   `limit_exceeded` if this process can have too few file descriptors, of which rank 0 needs
  ///   one for each rank. A soft limit that is too low is raised.
  static asio::awaitable<std::shared_ptr<store>> meet(const launch_info& who,
                                                      const settings& options);

  virtual ~store() = default;
  virtual const launch_info& who() const noexcept = 0;
  /// The local address of the connection to rank 0: a sensible address to publish.
  virtual std::string local_address() const = 0;
  /// 32 random bytes of this incarnation of the job, the same on every rank and known only to peers
  /// that authenticated to the store: the key that authenticates connections between ranks. Empty
  /// if the job has neither secret nor certificates.
  virtual secret data_key() const = 0;

  /// Replaces the value of the key. Completes when rank 0 has stored it.
  virtual asio::awaitable<void> set(std::string key, std::string value) = 0;
  /// The values of all keys in one round trip; waits until all are set or the deadline expires
  /// (`timed_out`: names the missing keys).
  virtual asio::awaitable<std::vector<std::string>> get(std::vector<std::string> keys,
                                                        std::chrono::milliseconds limit) = 0;
  /// Adds to a counter, initially 0, and returns the new value. Counters and the values of `get`
  /// are separate.
  virtual asio::awaitable<std::int64_t> add(std::string key, std::int64_t amount) = 0;

  /// Called once, when a rank is lost or any rank, this one included, has reported a failure, also
  /// if that was before the handler was set. `reason.context().peer` is the rank that caused it; on
  /// a rank that others report as lost, the rank that reported it.
  /// The handler must not throw; it may destroy the store.
  virtual void on_lost(lost_handler handler) = 0;
  /// Reports to every rank that the job has failed, with the reason. The first report of the job
  /// wins; without a peer in its context it names this rank. Never blocks; delivered even if the
  /// process exits next.
  virtual void report(const error& reason) noexcept = 0;
  /// Orderly close: the end of this rank's connection is then not a loss. Never blocks; delivered
  /// even if the process exits next. Rank 0's server runs until all have left or the store is
  /// destroyed.
  virtual void leave() noexcept = 0;

  /// After a loss: a new store of the ranks that are left, on which fabrics and communicators are
  /// made as at first. Every rank that is left calls it, after it has destroyed what used this one;
  /// all get the same members, with consecutive ranks in their order before (`previous_ranks`). The
  /// lowest of them serves the store. The model is MPI_Comm_shrink of ULFM (MPI Forum, User Level
  /// Failure Mitigation).
  ///
  /// A rank is not among them if its loss failed the job, or if its process is gone; ranks that
  /// have not called it within `settings::meet_timeout` are left out if they are fewer than half,
  /// else the call fails. Processes are assumed to stop when they fail: where a network is cut in
  /// two halves, both may go on. `settings::min_survivors` sets how many have to be left; more than
  /// half of the job excludes that.
  /// @par Cost  One listening socket per rank from the start. A rank that is gone is found at once,
  ///   a host that is gone in 3 s.
  /// @par Errors  `bad_option` without `settings::min_survivors`; `peer_lost` on a rank that the
  ///   others have given up, and if another rank is lost while they meet and was to serve;
  ///   `rank_missing` if too few are left; `timed_out`; those of `meet`. The job has then ended.
  virtual asio::awaitable<std::shared_ptr<store>> shrink();
  /// Of a store that `shrink` made: the ranks before, in the order of the new ones. Else empty.
  virtual std::vector<int> previous_ranks() const { return {}; }
};

}  // namespace tandem

#pragma GCC visibility pop
