#include "rendezvous/store_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tandem/detail/duration_text.hpp>
#include <tandem/log.hpp>

namespace tandem::rendezvous {
namespace {

void warn(const std::string& text) {
  log(log_level::warning, "rendezvous", text);
}

error peer_error(errc code, int peer, std::string detail, std::string advice) {
  error_context c;
  c.peer = peer;
  c.detail = std::move(detail);
  c.advice = std::move(advice);
  return error(make_error_code(code), std::move(c));
}

}  // namespace

store_core::store_core(parameters how)
    : parameters_(std::move(how)),
      rank_slots_(static_cast<std::size_t>(parameters_.size)),
      keys_(parameters_.limits.keys) {
  if (parameters_.lost_rank >= 0) {
    rank_slots_[static_cast<std::size_t>(parameters_.lost_rank)].state = presence::lost;
  }
}

void store_core::opened(connection_id from, std::string address, time_point now) {
  const time_point by = now + parameters_.limits.identify_timeout;
  evict_unidentified(now);
  clients_[from] = client{std::move(address), -1, by};
  identifying_.emplace(by, from);
}

void store_core::evict_unidentified(time_point now) {
  if (identifying_.size() < parameters_.limits.max_unidentified) return;
  const auto is_silent = [this](const auto& one) { return !clients_[one.second].has_sent; };
  const auto found = std::find_if(identifying_.begin(), identifying_.end(), is_silent);
  const auto victim = found == identifying_.end() ? identifying_.begin() : found;
  drop(victim->second, "crowd",
       fmt::format("{} connections have not identified themselves", identifying_.size()), now);
}

void store_core::bytes_arrived(connection_id from) {
  const auto found = clients_.find(from);
  if (found != clients_.end()) found->second.has_sent = true;
}

void store_core::received(connection_id from, store_request request, time_point now) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  const int rank = found->second.rank;
  const bool is_hello = std::holds_alternative<hello_request>(request);
  if (is_hello != (rank < 0)) {
    malformed(from, is_hello ? "a second hello" : "a request before the hello", now);
  } else if (const auto* hello = std::get_if<hello_request>(&request)) {
    on(from, *hello, now);
  } else if (const auto* failure = std::get_if<report_request>(&request)) {
    report(rank, failure->reason);
  } else if (std::holds_alternative<leave_request>(request)) {
    leave(rank);
  } else {
    keys_.received(from, std::move(request), now);
    send_replies();
  }
}

void store_core::untrusted(connection_id from, const std::string& why, time_point now) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  if (found->second.rank >= 0) {
    malformed(from, why, now);
  } else {
    last_refusal_ = fmt::format("; refused {}: {}", found->second.address, why);
    drop(from, "trust", why, now);
  }
}

void store_core::malformed(connection_id from, const std::string& why, time_point now) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  const int rank = found->second.rank;
  drop(from, "bytes", why, now);
  if (rank >= 0) {
    rank_lost(rank, errc::protocol_violation,
              fmt::format("rank {} violated the protocol of rank 0's store: {}", rank, why));
  }
}

void store_core::closed(connection_id from, const std::string& how) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  const int rank = found->second.rank;
  forget(from);
  if (rank < 0) return;
  rank_lost(rank, errc::peer_lost,
            fmt::format("rank {} is gone: its connection to rank 0's store closed unexpectedly{}",
                        rank, how.empty() ? "" : fmt::format(" ({})", how)));
}

void store_core::put(std::string key, std::string value, time_point now) {
  constexpr connection_id server_itself = 0;
  keys_.received(server_itself, set_request{0, std::move(key), std::move(value)}, now);
  for (store_keys::answer& a : keys_.take()) {
    if (a.to != server_itself) send(a.to, std::move(a.message));
  }
}

void store_core::tick(time_point now) {
  while (!identifying_.empty() && identifying_.begin()->first <= now) {
    drop(identifying_.begin()->second, "silent",
         fmt::format("handshake timeout: not identified within {}",
                     detail::to_text(parameters_.limits.identify_timeout)),
         now);
  }
  keys_.tick(now);
  send_replies();
  if (phase_ != phase::meeting || parameters_.meet_by > now) return;
  // Fewer than half of those that may be alive could be the smaller side of a network that was cut.
  const int silent = static_cast<int>(absent().size());
  if (shrinks() && present_ > silent) {
    start();
  } else {
    fail(missing_ranks());
  }
}

std::optional<store_core::time_point> store_core::next_deadline() const {
  std::optional<time_point> next;
  const auto consider = [&next](time_point at) { next = std::min(next.value_or(at), at); };
  if (phase_ == phase::meeting) consider(parameters_.meet_by);
  if (!identifying_.empty()) consider(identifying_.begin()->first);
  if (const auto waits = keys_.next_deadline()) consider(*waits);
  return next;
}

bool store_core::identified(connection_id from) const {
  const auto found = clients_.find(from);
  return found != clients_.end() && found->second.rank >= 0;
}

// --- membership

/// Of a shrunk job: the others do not wait for this rank any more.
bool store_core::is_left_out(int rank) const {
  if (phase_ == phase::running) return true;
  return phase_ == phase::meeting && rank >= 0 && rank < parameters_.size &&
         rank_slots_[static_cast<std::size_t>(rank)].state == presence::lost;
}

std::optional<error> store_core::check_hello(const hello_request& hello) const {
  if (hello.job != parameters_.job) {
    return error(errc::job_mismatch,
                 fmt::format("the store at {} serves job '{}', this rank belongs to job '{}'",
                             parameters_.where, printable(parameters_.job), printable(hello.job)),
                 "give each job a port of its own (TANDEM_RENDEZVOUS or MASTER_PORT)");
  }
  if (shrinks() && is_left_out(hello.rank)) {
    return error(errc::peer_lost,
                 fmt::format("the others gave up rank {} and go on without it", hello.rank),
                 "end this rank; to train with it, restart the job");
  }
  if (hello.size != parameters_.size) {
    return error(errc::size_mismatch,
                 fmt::format("rank {} was started as one of {} ranks, rank 0 at {} as one of {}",
                             hello.rank, hello.size, parameters_.where, parameters_.size),
                 "start all ranks with one size (WORLD_SIZE or TANDEM_SIZE)");
  }
  if (hello.rank < 0 || hello.rank >= parameters_.size) {
    return error(
        errc::bad_input,
        fmt::format("rank {} is out of range in a job of {} ranks", hello.rank, parameters_.size),
        fmt::format("ranks count from 0 to {}", parameters_.size - 1));
  }
  if (cause_) return *cause_;
  const rank_slot& slot = rank_slots_[static_cast<std::size_t>(hello.rank)];
  if (slot.state == presence::absent) return {};
  const char* state = slot.state == presence::connected ? "joined" : "joined and disconnected";
  return error(
      errc::rank_taken,
      fmt::format("rank {} of the job at {} has already {}", hello.rank, parameters_.where, state),
      "start each rank once (RANK or TANDEM_RANK), and each job on a port of its own");
}

void store_core::on(connection_id from, const hello_request& hello, time_point now) {
  if (const std::optional<error> why = check_hello(hello)) {
    ++dropped_;
    warn(fmt::format("refused {}: {}", clients_[from].address, why->what()));
    forget(from);
    send(from, refused_reply{*why}, true);
    return;
  }
  admit_rank(from, hello, now);
}

void store_core::admit_rank(connection_id from, const hello_request& hello, time_point now) {
  client& who = clients_[from];
  identifying_.erase({who.identify_by, from});
  who.rank = hello.rank;
  rank_slots_[static_cast<std::size_t>(hello.rank)] = {presence::connected, from,
                                                       hello.meeting_port};
  send(from, accepted_reply{});
  // The earliest deadline of any rank holds for all, so that all end with the same error.
  const time_point by = now + std::chrono::milliseconds(hello.left_ms);
  if (by < parameters_.meet_by) {
    parameters_.meet_by = by;
    parameters_.meet_timeout = std::chrono::milliseconds(hello.limit_ms);
  }
  ++present_;
  start_if_complete();
}

void store_core::leave(int rank) {
  rank_slot& slot = rank_slots_[static_cast<std::size_t>(rank)];
  if (slot.state != presence::connected) return;
  const connection_id by = slot.by;
  forget(by);
  if (phase_ == phase::meeting) {
    rank_lost(rank, errc::peer_lost, fmt::format("rank {} left before all ranks had joined", rank));
    if (shrinks()) {
      outputs_.push_back({by, {}, true});
      return;
    }
  }
  if (slot.state == presence::connected) --present_;
  slot.state = presence::left;
  outputs_.push_back({by, {}, true});
  if (rank == parameters_.server_rank) send_to_all(leaving_reply{});
}

void store_core::report(int rank, const error& reason) {
  if (rank_slots_[static_cast<std::size_t>(rank)].state != presence::connected) return;
  error_context outer;
  outer.rank = rank;
  outer.peer = rank;
  error full = with_context(reason, outer);
  if (full.context().peer >= parameters_.size) {
    error_context corrected = full.context();
    corrected.peer = rank;
    full = error(full.code(), std::move(corrected));
  }
  fail(full);
}

void store_core::rank_lost(int rank, errc code, const std::string& why) {
  rank_slot& slot = rank_slots_[static_cast<std::size_t>(rank)];
  if (slot.state != presence::connected) return;
  slot.state = presence::lost;
  --present_;
  if (shrinks() && phase_ == phase::meeting) {
    start_if_complete();
    return;
  }
  fail(peer_error(code, rank, why, fmt::format("check the last output of rank {}", rank)));
}

void store_core::unreachable(int rank) {
  rank_slot& slot = rank_slots_[static_cast<std::size_t>(rank)];
  if (!shrinks() || phase_ != phase::meeting || slot.state != presence::absent) return;
  slot.state = presence::lost;
  start_if_complete();
}

std::vector<int> store_core::absent() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < parameters_.size; ++rank) {
    if (rank_slots_[static_cast<std::size_t>(rank)].state == presence::absent)
      ranks.push_back(rank);
  }
  return ranks;
}

void store_core::start_if_complete() {
  if (phase_ == phase::meeting && present_ > 0 && absent().empty()) start();
}

void store_core::start() {
  if (present_ < parameters_.min_survivors) {
    fail(peer_error(errc::rank_missing, parameters_.lost_rank,
                    fmt::format("{} of {} ranks are left, and the job needs {}", present_,
                                parameters_.size, parameters_.min_survivors),
                    "restart the job, or let fewer ranks go on (TANDEM_MIN_SURVIVORS)"));
    return;
  }
  started_reply started;
  if (shrinks()) started = renumber();
  started.data_key = std::string(parameters_.data_key.text());
  phase_ = phase::running;
  send_to_all(std::move(started));
}

/// Gives the ranks that joined consecutive numbers; returns what they have to know of each other.
started_reply store_core::renumber() {
  started_reply result;
  std::vector<rank_slot> slots;
  for (int rank = 0; rank < parameters_.size; ++rank) {
    const rank_slot& slot = rank_slots_[static_cast<std::size_t>(rank)];
    if (slot.state != presence::connected) continue;
    const int now = static_cast<int>(slots.size());
    clients_[slot.by].rank = now;
    if (rank == parameters_.server_rank) parameters_.server_rank = now;
    slots.push_back(slot);
    result.members.push_back(rank);
    result.ports.push_back(slot.meeting_port);
  }
  rank_slots_ = std::move(slots);
  parameters_.size = static_cast<int>(rank_slots_.size());
  return result;
}

void store_core::fail(const error& cause) {
  if (phase_ == phase::failed) return;
  phase_ = phase::failed;
  cause_ = cause;
  keys_.fail(cause);
  send_to_all(notice_reply{cause});
}

error store_core::missing_ranks() const {
  const std::vector<int> ranks = absent();
  const int first = ranks.empty() ? -1 : ranks.front();
  std::vector<std::string> missing;
  for (const int rank : ranks) missing.push_back(std::to_string(rank));
  const bool one = missing.size() == 1;
  return peer_error(
      errc::rank_missing, first,
      fmt::format("{} {} did not join within {}: {} of {} {} connected{}", one ? "rank" : "ranks",
                  list_text(missing), detail::to_text(parameters_.meet_timeout), present_,
                  parameters_.size, present_ == 1 ? "is" : "are", last_refusal_),
      fmt::format("start {0}, or check that {1} can reach {2}{3}", one ? "it" : "them",
                  one ? "it" : "they", parameters_.where,
                  parameters_.listen_text.empty()
                      ? ""
                      : fmt::format("; rank 0 listens on {}", parameters_.listen_text)));
}

// --- connections

void store_core::forget(connection_id from) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  keys_.forget(from);
  identifying_.erase({found->second.identify_by, from});
  clients_.erase(found);
}

void store_core::drop(connection_id from, std::string_view kind, const std::string& why,
                      time_point now) {
  ++dropped_;
  dropped_log_.add(
      kind, fmt::format("dropped the connection from {}: {}", clients_[from].address, why), now);
  forget(from);
  outputs_.push_back({from, {}, true});
}

void store_core::send_to_all(const store_reply& message) {
  for (const rank_slot& slot : rank_slots_) {
    if (slot.state == presence::connected) send(slot.by, message);
  }
}

void store_core::send_replies() {
  for (store_keys::answer& a : keys_.take()) send(a.to, std::move(a.message));
}

void store_core::send(connection_id to, store_reply message, bool close) {
  outputs_.push_back({to, std::move(message), close});
}

}  // namespace tandem::rendezvous
