#pragma once

#include <tandem.h>

#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <tandem/communicator.hpp>
#include <tandem/fabric.hpp>
#include <tandem/launch.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>
#include <vector>

#include "device_side.hpp"
#include "group_of_ranks.hpp"
#include "progress.hpp"

namespace tandem::c {

/// Where the ranks of a job meet, as they find out through a store of the caller's: rank 0 chooses
/// the address of Tandem's own store, which also watches over the ranks. It is on loopback where
/// all ranks run on one host; else an address that other hosts can use, and a new secret for the
/// job, unless `options` has one.
/// @param options  receives that secret
/// @par Cost  Each rank sets and gets one key, rank 0 one for each rank.
/// @par Errors thrown: `errc::bad_input`: the caller's store failed; `errc::unreachable`: this host
///   has no address for ranks of other hosts; `errc::version_mismatch`: a rank has another version
///   of Tandem.
launch_info meet_through(const tandem_store& through, std::string job, int rank, int size,
                         settings& options);

/// An address of this host for ranks of other hosts: the one that MASTER_ADDR names, else of the
/// first interface that is up, IPv4 first. Empty: there is none.
/// @par Errors thrown: `errc::unreachable`: the resolver does not answer for MASTER_ADDR.
std::optional<boost::asio::ip::address> find_external_address(const settings& options);

/// An address of the first interface that is up and whose name is chosen, also loopback.
std::optional<boost::asio::ip::address> find_interface_address(
    const settings& options, const std::function<bool(const std::string& interface)>& is_chosen);

/// How a rank joins its job.
struct join_request {
  launch_info who;
  settings options;
  memory_kind kind = memory_kind::host;  ///< of most of its data
  int device = 0;
};

/// This process as a rank of a job. Destroyed on the loop, when the last group is.
class job_state : public std::enable_shared_from_this<job_state> {
 public:
  explicit job_state(progress& loop) : loop_(loop) {}

  progress& loop() const noexcept { return loop_; }
  int rank() const noexcept { return who_.rank; }
  int size() const noexcept { return who_.size; }
  /// Ranks with different numbers are never in one island.
  int island() const noexcept { return island_; }
  std::chrono::milliseconds operation_timeout() const noexcept { return operation_timeout_; }

  /// The lowest of all ranks.
  const stream_limits& limits_of_streams() const noexcept { return stream_limits_; }

  const std::shared_ptr<known_calls>& calls() const noexcept { return calls_; }
  /// The accelerator of a buffer, made on first use. Any thread but the loop's.
  std::shared_ptr<device_side> side_of(memory_kind kind, int device);

  // On the loop.

  /// Joins, connects, and makes the communicator of all ranks.
  static asio::awaitable<void> join(std::shared_ptr<job_state> self, join_request how);
  /// The group of some ranks of `parent`, called by those.
  static asio::awaitable<std::shared_ptr<group_of_ranks>> create_group(
      std::shared_ptr<group_of_ranks> parent, std::vector<int> members, std::string name);
  static asio::awaitable<std::shared_ptr<group_of_ranks>> split(
      std::shared_ptr<group_of_ranks> parent, int colour, int key);

  const std::shared_ptr<group_of_ranks>& world() const noexcept { return world_; }
  /// Waits for what vendors' libraries carry out, at most until its time limits. Not on the loop.
  void finish_queued();
  /// Leaves the job; ends all operations.
  void leave();
  /// Ends the job on every rank.
  void abort(const std::string& reason);
  /// Ends the job on every rank with that error.
  void fail(const error& why) {
    if (fabric_) fabric_->fail(why);
  }

 private:
  std::shared_ptr<group_of_ranks> add(std::unique_ptr<communicator> ranks);

  progress& loop_;
  const std::shared_ptr<known_calls> calls_ = std::make_shared<known_calls>();
  std::mutex sides_mutex_;
  std::map<std::pair<memory_kind, int>, std::shared_ptr<device_side>> sides_;
  launch_info who_;
  std::chrono::milliseconds operation_timeout_{};
  int island_ = 0;
  bool streams_wait_ = false;
  stream_limits stream_limits_;
  std::vector<std::string> kinds_;  ///< of the memory of each rank that a vendor's library may use
  std::shared_ptr<store> store_;
  std::unique_ptr<fabric> fabric_;
  std::shared_ptr<group_of_ranks> world_;
  std::list<std::weak_ptr<group_of_ranks>> groups_;
  std::map<std::string, unsigned> groups_by_name_;  ///< how many were made with each name
};

/// The outcome of operations that were given up, with the reason.
std::exception_ptr cancelled(std::string why);

/// Runs a coroutine on the loop and returns its result, on any thread but the loop's. Rethrows.
template <class T>
T run_on(progress& loop, asio::awaitable<T> work) {
  std::atomic<bool> is_done{false};
  std::exception_ptr failure;
  std::optional<T> result;
  loop.count_operations(+1);
  loop.submit([&] {
    asio::co_spawn(loop.executor(), std::move(work), [&](std::exception_ptr failed, T value) {
      failure = failed;
      if (!failed) result.emplace(std::move(value));
      loop.count_operations(-1);
      is_done.store(true, std::memory_order_release);
      loop.notify();
    });
  });
  while (!is_done.load(std::memory_order_acquire)) loop.wait(is_done, progress::time_point::max());
  if (failure) std::rethrow_exception(failure);
  return std::move(*result);
}

/// Joins a job. @par Errors thrown: those of `job_state::join`.
std::unique_ptr<tandem_job> make_job(join_request how);

}  // namespace tandem::c

struct tandem_job {
  std::shared_ptr<tandem::c::job_state> state;
  tandem_comm world;
};
