#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>
#include <tandem/error.hpp>
#include <tandem/launch.hpp>
#include <tandem/settings.hpp>
#include <vector>

namespace tandem {

namespace asio = boost::asio;

/// The small key-value store in which ranks meet: rank 0 serves it, every rank is a client of it.
///
/// Its connections double as the job's pulse: when the process of a rank ends without `leave`,
/// every other rank hears `lost(rank)` within milliseconds; when rank 0 is gone, all hear
/// `lost(0)`. The first cause wins: all ranks hear the same one.
///
/// @par Executor  Everything on the executor it was made with. @par Errors  `tandem::error`, one
/// line each.
class store {
 public:
  using lost_handler = std::function<void(const error& reason)>;

  /// Joins the job: rank 0 starts the server, all connect, and all wait until `size` ranks are
  /// there.
  /// @par Errors within `options.meet_timeout`: `rank_missing` (names them; same on every rank that
  /// came),
  ///   `rank_taken`, `size_mismatch`, `address_in_use`, `unreachable`, `not_tandem`,
  ///   `version_mismatch`, `job_mismatch`.
  static asio::awaitable<std::shared_ptr<store>> meet(const launch_info& who,
                                                      const settings& options);

  virtual ~store() = default;
  virtual const launch_info& who() const noexcept = 0;
  /// The local address through which this rank reached rank 0: a sensible address to publish.
  virtual std::string local_address() const = 0;

  virtual asio::awaitable<void> set(std::string key, std::string value) = 0;
  /// The values of all keys in one round trip, waiting until all are there or the deadline passes
  /// (`timed_out`: names the keys that never came).
  virtual asio::awaitable<std::vector<std::string>> get(std::vector<std::string> keys,
                                                        std::chrono::milliseconds limit) = 0;
  /// Adds to a counter (0 at first) and returns the new value.
  virtual asio::awaitable<std::int64_t> add(std::string key, std::int64_t amount) = 0;

  /// Called once, when a rank is lost or some rank reported a failure; `reason.context().peer` is
  /// the rank to blame.
  virtual void on_lost(lost_handler handler) = 0;
  /// Tells every rank that the job cannot go on and why. The first report of the job wins.
  virtual void report(const error& reason) noexcept = 0;
  /// An orderly goodbye. Never blocks; the server of rank 0 stays until all have left or the store
  /// is destroyed.
  virtual void leave() noexcept = 0;
};

}  // namespace tandem
