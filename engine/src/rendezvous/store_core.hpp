#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/store_wire.hpp"

namespace tandem::rendezvous {

/// What one store may hold, whoever writes to it.
struct store_limits {
  std::size_t keys = 1'000'000;
  std::size_t key_bytes = 1024;
  std::size_t total_bytes = 256 * 1024 * 1024;
  std::size_t reply_bytes = most_reply_bytes;
  std::size_t waits_per_rank = 1024;
  std::size_t strangers = 64;  ///< connections that have not said who they are
  std::chrono::milliseconds identify{5'000};
};

/// Decides everything that rank 0's store does, without I/O: it is told what came from which
/// connection and when, and says what to send and what to close. The caller gives ids to
/// connections, carries out `take` after each call, and calls `tick` at `next_deadline`.
///
/// The job is first meeting, then running. It fails once, by the first cause: a rank that never
/// came, a rank that is gone, or a report. All ranks that are here get the same notice; what they
/// ask later fails with it.
class store_core {
 public:
  using clock = std::chrono::steady_clock;
  using time_point = clock::time_point;
  using connection = std::uint64_t;

  struct plan {
    int size = 1;
    std::string job;
    std::string where;  ///< "10.0.0.1:29500", for errors
    std::chrono::milliseconds meet_timeout{30'000};
    time_point meet_by;
    store_limits limits = {};
  };

  struct output {
    connection to = 0;
    std::optional<store_reply> message;
    bool close = false;  ///< after the message
  };

  explicit store_core(plan how);

  void opened(connection from, std::string address, time_point now);
  void received(connection from, store_request request, time_point now);
  /// Bytes came that no correct rank sends, or another program's, or another version's.
  void malformed(connection from, const std::string& why);
  void closed(connection from);
  void tick(time_point now);

  /// A rank's goodbye and its report; rank 0 makes them here, without a connection in between.
  void leave(int rank);
  void report(int rank, const error& reason);

  std::vector<output> take() { return std::exchange(outputs_, {}); }
  std::optional<time_point> next_deadline() const;
  /// False while so many connections have not said who they are that more should wait in the
  /// kernel.
  bool may_accept() const noexcept { return identifying_.size() < plan_.limits.strangers; }
  bool identified(connection from) const;
  bool all_left() const noexcept { return left_ == plan_.size; }
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  enum class phase { meeting, running, failed };
  enum class presence { absent, here, left, gone };
  struct seat {
    presence is = presence::absent;
    connection by = 0;
  };
  struct client {
    std::string address;
    int rank = -1;
    std::size_t waits = 0;
    time_point identify_by;
  };
  struct wait {
    connection from = 0;
    get_request request;
    std::set<std::string> missing;
    time_point by;
  };
  using wait_id = std::uint64_t;

  void on(connection from, const hello_request& hello, time_point now);
  void on(connection from, const set_request& request, time_point now);
  void on(connection from, get_request& request, time_point now);
  void on(connection from, const add_request& request, time_point now);
  std::optional<error> objection(const hello_request& hello) const;
  std::optional<error> room_for(const std::string& key, std::size_t bytes, bool fresh) const;
  void seat_taken(connection from, const hello_request& hello, time_point now);
  void arrived(const std::string& key);
  void answer(connection to, const get_request& request);
  void end_wait(wait_id id);
  void end_waits_of(connection from);
  void time_out(wait_id id);
  void forget(connection from);
  void drop(connection from, const std::string& why);
  void lose(int rank, errc code, const std::string& why);
  void fail(const error& cause);
  void tell_all(const store_reply& message);
  error missing_ranks() const;
  void send(connection to, store_reply message, bool close = false);

  plan plan_;
  phase phase_ = phase::meeting;
  std::optional<error> cause_;
  std::vector<seat> seats_;
  int here_ = 0;
  int left_ = 0;
  std::map<connection, client> clients_;
  std::set<std::pair<time_point, connection>> identifying_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::int64_t> counters_;
  std::size_t bytes_ = 0;
  std::map<wait_id, wait> waits_;
  std::set<std::pair<time_point, wait_id>> wait_deadlines_;
  std::unordered_map<std::string, std::set<wait_id>> waiting_for_;
  wait_id next_wait_ = 1;
  std::vector<output> outputs_;
  std::uint64_t dropped_ = 0;
};

}  // namespace tandem::rendezvous
