#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tandem/detail/polled_mutex.hpp>
#include <vector>

#include "communicator/call_log.hpp"
#include "communicator/call_record.hpp"

namespace tandem::detail {

/// What a rank tells another about its calls of their vendor's library, as plain bytes.
struct library_report {
  std::uint64_t queue = 0;  ///< which communicator of the library
  call_log collectives{};
  call_log sends{};     ///< to the rank that gets the report
  call_log receives{};  ///< from that rank
};

/// The calls that a rank has made of its vendor's library, beside what other ranks report of
/// theirs. The library itself does not compare them: ranks whose calls differ wait for each other
/// in its kernels for ever. Without I/O.
///
/// Collectives match by their order on each rank, messages by their order between two ranks in one
/// direction; only their lengths are compared.
/// @par Threads  Any. @par Cost  of a call: a lock that is hardly ever contended, and a hash.
class library_log {
 public:
  using clock = std::chrono::steady_clock;

  /// @param members  the ranks' numbers in the job, for texts
  /// @param neighbours  with which it compares its calls, as with all that it has messages with
  library_log(int rank, std::vector<int> members, std::span<const int> neighbours);

  void add(const call_record& collective);
  // To and from this rank itself is ignored.
  void add_send(int to, std::size_t bytes);
  void add_receive(int from, std::size_t bytes);

  /// The ranks to report to.
  std::vector<int> peers() const;
  /// For that rank; empty: it has it already.
  std::optional<library_report> next_report(int to);

  /// Compares a report with the own calls. @return how they differ, if they do
  std::optional<std::string> take(int from, const library_report& theirs, clock::time_point now);
  /// Looks at the time. @return the first rank that has not made calls for as long as `limit` that
  ///   this rank has made; one second more for one that has never reported
  std::optional<int> find_late(std::chrono::milliseconds limit, clock::time_point now);
  /// Of that rank: "rank 1 has made 30 of 31 collectives".
  std::string missing_text(int rank) const;
  /// Of all that are known to be behind, separated by commas; empty: of none.
  std::string missing_text() const;

 private:
  /// To connect, and report.
  static constexpr std::chrono::seconds first_report_time{1};
  /// Longer than those that are sent: a stream can be ahead of another rank's by more calls.
  using own_collectives = call_log_of<4096>;
  using own_messages = call_log_of<256>;

  /// Of another rank.
  struct peer {
    own_messages sends, receives;  ///< own ones, to it and from it
    std::uint64_t reported = 0;    ///< of this rank, to it
    bool has_reported = false;
    std::uint64_t collectives = 0, their_sends = 0, their_receives = 0;
    std::optional<clock::time_point> behind_since;
  };

  int ranks() const noexcept { return static_cast<int>(members_.size()); }
  peer& peer_at(int rank);
  /// Null: there was nothing with it yet.
  peer* find_peer(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)].get(); }
  std::uint64_t own_count(const peer& of) const noexcept;
  bool is_behind(const peer& which) const noexcept;
  std::string missing_of(int rank, const peer& which) const;
  std::string call_text(int rank, const char* verb, const std::string& mine,
                        const std::string& theirs) const;
  std::optional<std::string> compare(int from, const peer& with,
                                     const library_report& theirs) const;

  const std::vector<int> members_;
  // Together, as each call needs them.
  const int rank_;
  mutable polled_mutex mutex_;
  std::vector<std::unique_ptr<peer>> peers_;  ///< by rank; null: nothing with it yet
  own_collectives collectives_;
};

}  // namespace tandem::detail
