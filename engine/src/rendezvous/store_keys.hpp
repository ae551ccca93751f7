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

#include "rendezvous/store_protocol.hpp"

namespace tandem::rendezvous {

/// Limits of one store, over all ranks.
struct key_limits {
  std::size_t keys = 1'000'000;
  std::size_t key_bytes = 1024;
  std::size_t total_bytes = 256 * 1024 * 1024;
  std::size_t reply_bytes = max_reply_bytes;
  std::size_t waits_per_connection = 1024;
};

/// The keys of a store and the pending reads, without I/O. Values and counters have separate
/// namespaces: `set` and `get` access values, `add` counters.
class store_keys {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using connection_id = std::uint64_t;

  struct answer {
    connection_id to = 0;
    store_reply message;
  };

  explicit store_keys(key_limits limits) : limits_(limits) {}

  /// A set, get or add; others are ignored. A get is answered when its last key is set, or at its
  /// deadline.
  void received(connection_id from, store_request request, time_point now);
  void tick(time_point now);
  /// Drops the pending reads of a closed connection.
  void forget(connection_id from);
  /// Drops all pending reads; every later request fails with `cause`.
  void fail(const error& cause);

  std::vector<answer> take() { return std::exchange(answers_, {}); }
  std::optional<time_point> next_deadline() const;

 private:
  using wait_id = std::uint64_t;
  struct wait {
    connection_id from = 0;
    get_request request;
    std::set<std::string> missing;
    time_point by;
  };

  void set(connection_id from, set_request& request);
  void add(connection_id from, const add_request& request);
  void get(connection_id from, get_request& request, time_point now);
  std::optional<error> check_limits(const std::string& key, std::size_t bytes, bool is_new) const;
  void reply_values(connection_id to, const get_request& request);
  void reply(connection_id to, store_reply message) {
    answers_.push_back({to, std::move(message)});
  }
  void complete_reads(const std::string& key);
  void time_out(wait_id id);
  void end_wait(wait_id id);

  key_limits limits_;
  std::optional<error> cause_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::int64_t> counters_;
  std::size_t bytes_ = 0;
  std::map<wait_id, wait> waits_;
  std::set<std::pair<time_point, wait_id>> deadlines_;
  std::unordered_map<std::string, std::set<wait_id>> waiting_for_;
  std::map<connection_id, std::size_t> waits_of_;
  wait_id next_wait_ = 1;
  std::vector<answer> answers_;
};

/// "2, 5 and 12 more": lists at most 16.
std::string list_text(const std::vector<std::string>& all);

}  // namespace tandem::rendezvous
