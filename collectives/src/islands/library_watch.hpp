#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tandem/detail/cancellable.hpp>
#include <tandem/error.hpp>

#include "communicator/group.hpp"
#include "islands/library_log.hpp"

namespace tandem::detail {

/// Detects ranks of an island whose calls of their vendor's library differ, and those that do not
/// make them in time, and names them: ranks report their calls to each other.
///
/// Four times a second a rank that has made calls reports them to its neighbours and
/// to those it has messages with, in 3 KB. Calls of the library are not delayed.
class library_watch : public std::enable_shared_from_this<library_watch> {
 public:
  static constexpr std::chrono::milliseconds interval{250};
  /// Called at most once, on the group's executor, and not after `stop`. The job has failed then.
  using failure_handler = std::function<void(const error& why)>;

  /// @param neighbours  as of `library_log`
  /// @param queue  the same on all ranks, and different for each communicator of the library
  /// @param flow  of one watch at a time between two ranks
  library_watch(std::shared_ptr<group> over, std::span<const int> neighbours, std::uint64_t queue,
                flow_id flow, failure_handler what);
  library_watch(const library_watch&) = delete;
  library_watch& operator=(const library_watch&) = delete;

  /// On the executor.
  void start();
  void stop() noexcept;

  // Any thread.

  library_log& calls() noexcept { return calls_; }
  const library_log& calls() const noexcept { return calls_; }
  /// Calls that another rank does not make within it after this one fail.
  void set_time_limit(std::chrono::milliseconds limit) noexcept { limit_ms_ = limit.count(); }

 private:
  using message = kept_message<library_report>;
  struct peer_messages {
    std::shared_ptr<cancellable> connecting;
    bool is_sending = false, is_receiving = false;
  };

  void poll();
  void report_to(int peer);
  void connect_to(int peer);
  void receive_from(int peer);
  void take(int from, const message& report);
  void look_for_late();
  void fail(errc code, int peer, std::string detail, const char* advice);

  std::shared_ptr<group> over_;  ///< null: stopped
  const std::uint64_t queue_;
  const flow_id flow_;
  failure_handler on_failure_;
  library_log calls_;
  boost::asio::steady_timer timer_;
  std::map<int, peer_messages> peers_;
  kept_messages<library_report> in_flight_;
  std::atomic<std::int64_t> limit_ms_{0};  ///< 0: none
};

}  // namespace tandem::detail
