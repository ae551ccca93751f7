#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tandem/log_digest.hpp>
#include <tandem/secret.hpp>
#include <utility>
#include <vector>

#include "rendezvous/store_keys.hpp"
#include "rendezvous/store_wire.hpp"

namespace tandem::rendezvous {

/// Limits of unauthenticated peers, and of the keys of one store.
struct store_limits {
  key_limits keys;
  std::size_t strangers = 64;  ///< connections before their hello
  std::chrono::milliseconds identify{5'000};
};

/// The protocol of rank 0's store, without I/O. In: events of connections, with their time. Out:
/// messages to send and connections to close. The caller numbers the connections, applies `take`
/// after each call, and calls `tick` at `next_deadline`.
///
///   state    | event                                              | next state
///   meeting  | the last rank's hello                              | running
///   meeting  | the deadline passes, a rank is lost or leaves      | failed
///   running  | a rank is lost                                     | failed
///   any      | a rank reports a failure                           | failed
///
/// The first failure is kept: all connected ranks get the same notice, and later requests fail
/// with it.
class store_core {
 public:
  using time_point = store_keys::time_point;
  using connection = store_keys::connection;

  struct plan {
    int size = 1;
    std::string job;
    std::string where;         ///< the address that ranks connect to, for errors: "n1:29500"
    std::string listens = {};  ///< where rank 0 listens, for errors; may be empty
    std::chrono::milliseconds meet_timeout{30'000};
    time_point meet_by;
    store_limits limits = {};
    secret data_key = {};  ///< sent to every rank when all have joined
  };

  struct output {
    connection to = 0;
    std::optional<store_reply> message;
    bool close = false;  ///< after the message
  };

  explicit store_core(plan how);

  /// A new connection. Beyond the limit of connections before their hello, one of those is closed:
  /// the oldest that has sent nothing (a correct rank sends its hello at once), else the oldest.
  void opened(connection from, std::string address, time_point now);
  /// The connection has received bytes, valid or not.
  void heard(connection from);
  void received(connection from, store_request request, time_point now);
  /// A protocol violation: invalid bytes, another program, or another version.
  void malformed(connection from, const std::string& why, time_point now);
  /// The peer did not authenticate itself.
  void untrusted(connection from, const std::string& why, time_point now);
  /// @param how  the cause, where the connection was not closed in order.
  void closed(connection from, const std::string& how = {});
  void tick(time_point now);

  /// `leave` and `report` of a rank; rank 0 calls them directly, not over its connection.
  void leave(int rank);
  void report(int rank, const error& reason);

  std::vector<output> take() { return std::exchange(outputs_, {}); }
  std::optional<time_point> next_deadline() const;
  bool identified(connection from) const;
  /// All ranks have joined, and the job has not failed.
  bool running() const noexcept { return phase_ == phase::running; }
  /// Sets a key on behalf of rank 0's server.
  void put(std::string key, std::string value, time_point now);
  /// Some rank has not joined yet, and the job has not failed.
  bool is_meeting() const noexcept { return phase_ == phase::meeting; }
  /// The job has started or failed, and every rank that joined has left or is lost.
  bool over() const noexcept { return phase_ != phase::meeting && present_ == 0; }
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
    time_point identify_by;
    bool spoke = false;
  };

  void on(connection from, const hello_request& hello, time_point now);
  std::optional<error> objection(const hello_request& hello) const;
  void seat_taken(connection from, const hello_request& hello, time_point now);
  void forget(connection from);
  void drop(connection from, std::string_view kind, const std::string& why, time_point now);
  void make_room(time_point now);
  void lose(int rank, errc code, const std::string& why);
  void fail(const error& cause);
  void tell_all(const store_reply& message);
  error missing_ranks() const;
  void deliver();
  void send(connection to, store_reply message, bool close = false);

  plan plan_;
  phase phase_ = phase::meeting;
  std::optional<error> cause_;
  std::vector<seat> seats_;
  int present_ = 0;
  std::map<connection, client> clients_;
  std::set<std::pair<time_point, connection>> identifying_;
  store_keys keys_;
  std::vector<output> outputs_;
  std::uint64_t dropped_ = 0;
  log_digest strangers_{log_level::warning, "rendezvous"};
};

}  // namespace tandem::rendezvous
