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

/// What strangers may take from one store, and ranks from each other.
struct store_limits {
  key_limits keys;
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
  using time_point = store_keys::time_point;
  using connection = store_keys::connection;

  struct plan {
    int size = 1;
    std::string job;
    std::string where;         ///< what ranks dial: "n1:29500", for errors
    std::string listens = {};  ///< and what rank 0 listens on, where it is worth a word
    std::chrono::milliseconds meet_timeout{30'000};
    time_point meet_by;
    store_limits limits = {};
    secret data_key = {};  ///< goes to every rank when all are there
  };

  struct output {
    connection to = 0;
    std::optional<store_reply> message;
    bool close = false;  ///< after the message
  };

  explicit store_core(plan how);

  /// Where too many have not said who they are, one of them goes: the one that has said nothing
  /// for longest, for a rank of ours speaks at once.
  void opened(connection from, std::string address, time_point now);
  /// Bytes came, whatever they are.
  void heard(connection from);
  void received(connection from, store_request request, time_point now);
  /// Bytes came that no correct rank sends, or another program's, or another version's.
  void malformed(connection from, const std::string& why, time_point now);
  /// It did not prove that it belongs to this job.
  void untrusted(connection from, const std::string& why, time_point now);
  /// @param how  why it ended, where it was no orderly end.
  void closed(connection from, const std::string& how = {});
  void tick(time_point now);

  /// A rank's goodbye and its report; rank 0 makes them here, without a connection in between.
  void leave(int rank);
  void report(int rank, const error& reason);

  std::vector<output> take() { return std::exchange(outputs_, {}); }
  std::optional<time_point> next_deadline() const;
  bool identified(connection from) const;
  /// All ranks are here, and the job has not failed.
  bool running() const noexcept { return phase_ == phase::running; }
  /// A value that rank 0 itself has for all.
  void put(std::string key, std::string value, time_point now);
  /// Some rank has not come yet.
  bool is_meeting() const noexcept { return phase_ == phase::meeting; }
  /// The job has begun or failed, and every rank that came has left or is gone.
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
