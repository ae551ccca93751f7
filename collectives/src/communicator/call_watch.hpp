#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "call_log.hpp"
#include "kept_message.hpp"

namespace tandem::detail {

class group;

/// Detects ranks that wait for each other because they have called different collectives whose
/// messages never match. A rank whose oldest call has waited for a second sends its call log to its
/// peers and receives the logs of peers that wait as well; if two logs differ, both ranks fail with
/// an error that names both calls.
///
/// Polls four times a second while calls are open, so it adds no cost to a call.
class call_watch : public std::enable_shared_from_this<call_watch> {
 public:
  static constexpr std::chrono::milliseconds poll_interval{250};
  static constexpr int polls_until_stuck = 4;
  static constexpr int polls_until_all_report = 2 * polls_until_stuck;

  /// @pre the group calls `stop` before it is destroyed.
  explicit call_watch(group& of);
  call_watch(const call_watch&) = delete;
  call_watch& operator=(const call_watch&) = delete;
  ~call_watch();

  /// A call has begun.
  void begin() {
    if (!armed_) arm();
  }
  void stop() noexcept;
  /// Connected ranks of the group that have not reported a call with that sequence number, although
  /// this rank has waited for seconds. Where no rank can end a call before all have made it, they
  /// have not made it. Empty: none, or not known yet.
  std::vector<int> silent_ranks(std::uint64_t sequence) const;

 private:
  using message = kept_message<call_log>;

  void arm();
  void poll();
  void send_log_to_peers();
  void begin_message(operation::kind what, int peer);
  void receive_log(const message& from, int peer);

  group* group_;
  boost::asio::steady_timer timer_;
  kept_messages<call_log> in_flight_;
  std::vector<bool> receiving_;                // by rank of the group
  std::vector<std::uint64_t> reported_calls_;  // the count of each rank's last log
  std::uint64_t oldest_ = 0;
  std::uint64_t sent_count_ = 0;  // the count of the log that was last sent
  int unchanged_polls_ = 0;
  bool armed_ = false;
};

}  // namespace tandem::detail
