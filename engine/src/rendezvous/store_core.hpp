#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tandem/detail/log_digest.hpp>
#include <tandem/secret.hpp>
#include <utility>
#include <vector>

#include "rendezvous/store_keys.hpp"
#include "rendezvous/store_protocol.hpp"

namespace tandem::rendezvous {

/// Limits of unauthenticated peers, and of the keys of one store.
struct store_limits {
  key_limits keys;
  std::size_t max_unidentified = 64;  ///< connections before their hello
  std::chrono::milliseconds identify_timeout{5'000};
};

/// The protocol of rank 0's store, without I/O. In: events of connections, with their time. Out:
/// messages to send and connections to close. The caller numbers the connections, applies `take`
/// after each call, and calls `tick` at `next_deadline`.
///
///   state    | event                                              | next state
///   meeting  | the last rank's hello                              | running
///   meeting  | the deadline passes, a rank is lost or leaves      | failed
///   shrinking| every rank has joined, is lost, or unreachable     | running, or failed: too few
///   shrinking| the deadline passes                                | running, or failed: too few
///   running  | a rank is lost                                     | failed
///   any      | a rank reports a failure                           | failed
///
/// The first failure is kept: all connected ranks get the same notice, and later requests fail
/// with it.
///
/// The meeting of a shrunk job ends with the ranks that joined; they are numbered anew, in the
/// order of their ranks before.
class store_core {
 public:
  using time_point = store_keys::time_point;
  using connection_id = store_keys::connection_id;

  struct parameters {
    int size = 1;
    int server_rank = 0;
    std::string job;
    std::string where;             ///< the address that ranks connect to, for errors: "n1:29500"
    std::string listen_text = {};  ///< where rank 0 listens, for errors; may be empty
    std::chrono::milliseconds meet_timeout{30'000};
    time_point meet_by;
    store_limits limits = {};
    secret data_key = {};  ///< sent to every rank when all have joined
    /// Of a shrunk job: the least number of ranks that go on. 0: every rank has to join.
    int min_survivors = 0;
    int lost_rank = -1;  ///< of a shrunk job: a rank that does not join; -1: none is known
  };

  struct output {
    connection_id to = 0;
    std::optional<store_reply> message;
    bool close = false;  ///< after the message
  };

  explicit store_core(parameters how);

  /// A new connection. Beyond the limit of connections before their hello, one of those is closed:
  /// the oldest that has sent nothing (a correct rank sends its hello at once), else the oldest.
  void opened(connection_id from, std::string address, time_point now);
  /// The connection has received bytes, valid or not.
  void bytes_arrived(connection_id from);
  void received(connection_id from, store_request request, time_point now);
  /// A protocol violation: invalid bytes, another program, or another version.
  void malformed(connection_id from, const std::string& why, time_point now);
  /// The peer did not authenticate itself.
  void untrusted(connection_id from, const std::string& why, time_point now);
  /// @param how  the cause, where the connection was not closed in order.
  void closed(connection_id from, const std::string& how = {});
  void tick(time_point now);

  /// Of a shrunk job: the process of a rank that has not joined is gone.
  void unreachable(int rank);
  /// The ranks that have not joined and are not known to be lost.
  std::vector<int> absent() const;

  /// `leave` and `report` of a rank; the server's calls them directly, not over its connection.
  void leave(int rank);
  void report(int rank, const error& reason);

  std::vector<output> take() { return std::exchange(outputs_, {}); }
  std::optional<time_point> next_deadline() const;
  bool identified(connection_id from) const;
  /// All ranks have joined, and the job has not failed.
  bool running() const noexcept { return phase_ == phase::running; }
  /// Sets a key on behalf of the server.
  void put(std::string key, std::string value, time_point now);
  /// Some rank has not joined yet, and the job has not failed.
  bool is_meeting() const noexcept { return phase_ == phase::meeting; }
  /// The job has started or failed, and every rank that joined has left or is lost.
  bool is_finished() const noexcept { return phase_ != phase::meeting && present_ == 0; }
  int server_rank() const noexcept { return parameters_.server_rank; }
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  enum class phase { meeting, running, failed };
  enum class presence { absent, connected, left, lost };
  struct rank_slot {
    presence state = presence::absent;
    connection_id by = 0;
    std::uint16_t meeting_port = 0;
  };
  struct client {
    std::string address;
    int rank = -1;
    time_point identify_by;
    bool has_sent = false;
  };

  void on(connection_id from, const hello_request& hello, time_point now);
  std::optional<error> check_hello(const hello_request& hello) const;
  void admit_rank(connection_id from, const hello_request& hello, time_point now);
  void forget(connection_id from);
  void drop(connection_id from, std::string_view kind, const std::string& why, time_point now);
  void evict_unidentified(time_point now);
  void rank_lost(int rank, errc code, const std::string& why);
  void fail(const error& cause);
  void send_to_all(const store_reply& message);
  error missing_ranks() const;
  bool shrinks() const noexcept { return parameters_.min_survivors > 0; }
  bool is_left_out(int rank) const;
  void start_if_complete();
  void start();
  started_reply renumber();
  void send_replies();
  void send(connection_id to, store_reply message, bool close = false);

  parameters parameters_;
  phase phase_ = phase::meeting;
  std::optional<error> cause_;
  std::vector<rank_slot> rank_slots_;
  int present_ = 0;
  std::map<connection_id, client> clients_;
  std::set<std::pair<time_point, connection_id>> identifying_;
  store_keys keys_;
  std::vector<output> outputs_;
  std::uint64_t dropped_ = 0;
  std::string last_refusal_;  ///< of a connection that did not authenticate: whose, and why
  log_digest dropped_log_{log_level::warning, "rendezvous"};
};

}  // namespace tandem::rendezvous
