#include "rendezvous/store_core.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tandem/log.hpp>

namespace tandem::rendezvous {
namespace {

constexpr std::size_t most_names = 16;

void warn(const std::string& text) {
  log(log_level::warning, "rendezvous", text);
}

/// "'a', 'b' and 12 more".
template <class List>
std::string names(const List& all, std::string_view form) {
  std::vector<std::string> shown;
  for (const auto& item : all) {
    if (shown.size() == most_names) break;
    shown.push_back(fmt::format(fmt::runtime(form), item));
  }
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (all.size() > most_names) text += fmt::format(" and {} more", all.size() - most_names);
  return text;
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

error blame(errc code, int peer, std::string detail, std::string advice) {
  error_context c;
  c.peer = peer;
  c.detail = std::move(detail);
  c.advice = std::move(advice);
  return error(make_error_code(code), std::move(c));
}

}  // namespace

store_core::store_core(plan how)
    : plan_(std::move(how)), seats_(static_cast<std::size_t>(plan_.size)) {}

void store_core::opened(connection from, std::string address, time_point now) {
  const time_point by = now + plan_.limits.identify;
  const bool crowded = !may_accept();
  clients_[from] = client{std::move(address), -1, 0, by};
  identifying_.emplace(by, from);
  if (crowded) drop(from, "too many connections have not said who they are");
}

void store_core::received(connection from, store_request request, time_point now) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  const int rank = found->second.rank;
  const bool is_hello = std::holds_alternative<hello_request>(request);
  if (is_hello != (rank < 0)) {
    malformed(from, is_hello ? "a second hello" : "a request before the hello");
  } else if (const auto* hello = std::get_if<hello_request>(&request)) {
    on(from, *hello, now);
  } else if (const auto* value = std::get_if<set_request>(&request)) {
    on(from, *value, now);
  } else if (auto* keys = std::get_if<get_request>(&request)) {
    on(from, *keys, now);
  } else if (const auto* amount = std::get_if<add_request>(&request)) {
    on(from, *amount, now);
  } else if (const auto* failure = std::get_if<report_request>(&request)) {
    report(rank, failure->reason);
  } else {
    leave(rank);
  }
}

void store_core::malformed(connection from, const std::string& why) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  const int rank = found->second.rank;
  drop(from, why);
  if (rank >= 0) {
    lose(rank, errc::protocol_violation,
         fmt::format("rank {} sent rank 0's store what no correct rank sends: {}", rank, why));
  }
}

void store_core::closed(connection from) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  const int rank = found->second.rank;
  forget(from);
  if (rank < 0) return;
  lose(rank, errc::peer_lost,
       fmt::format("rank {} is gone: its connection to rank 0's store ended without a goodbye",
                   rank));
}

void store_core::tick(time_point now) {
  while (!identifying_.empty() && identifying_.begin()->first <= now) {
    const double limit_s = seconds(plan_.limits.identify);
    drop(identifying_.begin()->second, fmt::format("it said nothing for {:g} s", limit_s));
  }
  while (!wait_deadlines_.empty() && wait_deadlines_.begin()->first <= now) {
    time_out(wait_deadlines_.begin()->second);
  }
  if (phase_ == phase::meeting && plan_.meet_by <= now) fail(missing_ranks());
}

std::optional<store_core::time_point> store_core::next_deadline() const {
  std::optional<time_point> next;
  const auto consider = [&next](time_point at) { next = std::min(next.value_or(at), at); };
  if (phase_ == phase::meeting) consider(plan_.meet_by);
  if (!identifying_.empty()) consider(identifying_.begin()->first);
  if (!wait_deadlines_.empty()) consider(wait_deadlines_.begin()->first);
  return next;
}

bool store_core::identified(connection from) const {
  const auto found = clients_.find(from);
  return found != clients_.end() && found->second.rank >= 0;
}

// --- membership

std::optional<error> store_core::objection(const hello_request& hello) const {
  if (hello.job != plan_.job) {
    return error(errc::job_mismatch,
                 fmt::format("the store at {} serves job '{}', this rank belongs to job '{}'",
                             plan_.where, printable(plan_.job), printable(hello.job)),
                 "give each job a port of its own (TANDEM_RENDEZVOUS or MASTER_PORT)");
  }
  if (hello.size != plan_.size) {
    return error(errc::size_mismatch,
                 fmt::format("rank {} was started as one of {} ranks, rank 0 at {} as one of {}",
                             hello.rank, hello.size, plan_.where, plan_.size),
                 "start all ranks with one size (WORLD_SIZE or TANDEM_SIZE)");
  }
  if (hello.rank < 0 || hello.rank >= plan_.size) {
    return error(errc::bad_input,
                 fmt::format("rank {} does not fit a job of {} ranks", hello.rank, plan_.size),
                 fmt::format("ranks count from 0 to {}", plan_.size - 1));
  }
  if (cause_) return *cause_;
  const seat& wanted = seats_[static_cast<std::size_t>(hello.rank)];
  if (wanted.is == presence::absent) return {};
  const char* state = wanted.is == presence::here ? "has come" : "has come and gone";
  return error(errc::rank_taken,
               fmt::format("rank {} of the job at {} already {}", hello.rank, plan_.where, state),
               "start each rank once (RANK or TANDEM_RANK), and each job on a port of its own");
}

void store_core::on(connection from, const hello_request& hello, time_point now) {
  if (const std::optional<error> why = objection(hello)) {
    ++dropped_;
    warn(fmt::format("refused {}: {}", clients_[from].address, why->what()));
    forget(from);
    send(from, refused_reply{*why}, true);
    return;
  }
  seat_taken(from, hello, now);
}

void store_core::seat_taken(connection from, const hello_request& hello, time_point now) {
  client& who = clients_[from];
  identifying_.erase({who.identify_by, from});
  who.rank = hello.rank;
  seats_[static_cast<std::size_t>(hello.rank)] = {presence::here, from};
  send(from, accepted_reply{});
  // Whoever waits least decides for all, so that all hear the same.
  const time_point by = now + std::chrono::milliseconds(hello.left_ms);
  if (by < plan_.meet_by) {
    plan_.meet_by = by;
    plan_.meet_timeout = std::chrono::milliseconds(hello.limit_ms);
  }
  if (++here_ == plan_.size) {
    phase_ = phase::running;
    tell_all(started_reply{});
  }
}

void store_core::leave(int rank) {
  seat& place = seats_[static_cast<std::size_t>(rank)];
  if (place.is != presence::here) return;
  const connection by = place.by;
  forget(by);
  if (phase_ == phase::meeting) {
    lose(rank, errc::peer_lost, fmt::format("rank {} left before all ranks had come", rank));
  }
  place.is = presence::left;
  ++left_;
  outputs_.push_back({by, {}, true});
  if (rank == 0) tell_all(leaving_reply{});
}

void store_core::report(int rank, const error& reason) {
  if (seats_[static_cast<std::size_t>(rank)].is != presence::here) return;
  error_context outer;
  outer.rank = rank;
  outer.peer = rank;
  error full = with_context(reason, outer);
  if (full.context().peer >= plan_.size) {
    error_context corrected = full.context();
    corrected.peer = rank;
    full = error(full.code(), std::move(corrected));
  }
  fail(full);
}

void store_core::lose(int rank, errc code, const std::string& why) {
  seat& place = seats_[static_cast<std::size_t>(rank)];
  if (place.is != presence::here) return;
  place.is = presence::gone;
  fail(blame(code, rank, why, fmt::format("look at the last output of rank {}", rank)));
}

void store_core::fail(const error& cause) {
  if (phase_ == phase::failed) return;
  phase_ = phase::failed;
  cause_ = cause;
  while (!waits_.empty()) end_wait(waits_.begin()->first);
  tell_all(notice_reply{cause});
}

error store_core::missing_ranks() const {
  std::vector<int> missing;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (seats_[static_cast<std::size_t>(rank)].is == presence::absent) missing.push_back(rank);
  }
  const bool one = missing.size() == 1;
  return blame(
      errc::rank_missing, missing.empty() ? -1 : missing.front(),
      fmt::format("{} {} never came within {:g} s: {} of {} {} here", one ? "rank" : "ranks",
                  names(missing, "{}"), seconds(plan_.meet_timeout), here_, plan_.size,
                  here_ == 1 ? "is" : "are"),
      fmt::format("start {0}, or check that {1} can reach {2}", one ? "it" : "them",
                  one ? "it" : "they", plan_.where));
}

// --- keys

std::optional<error> store_core::room_for(const std::string& key, std::size_t bytes,
                                          bool fresh) const {
  if (cause_) return *cause_;
  const store_limits& most = plan_.limits;
  if (key.empty() || key.size() > most.key_bytes) {
    return error(errc::limit_exceeded, fmt::format("a key of {} bytes", key.size()),
                 fmt::format("use 1 to {} bytes", most.key_bytes));
  }
  const std::size_t added = bytes + (fresh ? key.size() : 0);
  const bool too_many = fresh && values_.size() + counters_.size() >= most.keys;
  if (too_many || bytes_ + added > most.total_bytes) {
    return error(errc::limit_exceeded,
                 fmt::format("the store is full: {} keys, {} bytes",
                             values_.size() + counters_.size(), bytes_),
                 fmt::format("it is for addresses and the like: at most {} keys and {} bytes",
                             most.keys, most.total_bytes));
  }
  return {};
}

void store_core::on(connection from, const set_request& request, time_point) {
  const auto old = values_.find(request.key);
  const bool fresh = old == values_.end();
  const std::size_t old_bytes = fresh ? 0 : old->second.size();
  const std::size_t growth = request.value.size() - std::min(request.value.size(), old_bytes);
  if (const std::optional<error> why = room_for(request.key, growth, fresh)) {
    send(from, failed_reply{request.id, *why});
    return;
  }
  bytes_ += request.value.size() + (fresh ? request.key.size() : 0) - old_bytes;
  values_[request.key] = request.value;
  send(from, done_reply{request.id});
  if (fresh) arrived(request.key);
}

void store_core::on(connection from, const add_request& request, time_point) {
  const auto old = counters_.find(request.key);
  const bool fresh = old == counters_.end();
  std::optional<error> why = room_for(request.key, fresh ? sizeof(std::int64_t) : 0, fresh);
  std::int64_t value = fresh ? 0 : old->second;
  if (!why && __builtin_add_overflow(value, request.amount, &value)) {
    why =
        error(errc::limit_exceeded, fmt::format("counter '{}' overflows", printable(request.key)));
  }
  if (why) {
    send(from, failed_reply{request.id, *why});
    return;
  }
  if (fresh) bytes_ += request.key.size() + sizeof(std::int64_t);
  counters_[request.key] = value;
  send(from, number_reply{request.id, value});
}

void store_core::on(connection from, get_request& request, time_point now) {
  if (cause_) {
    send(from, failed_reply{request.id, *cause_});
    return;
  }
  std::set<std::string> missing;
  for (const std::string& key : request.keys) {
    if (!values_.contains(key)) missing.insert(key);
  }
  if (missing.empty()) {
    answer(from, request);
    return;
  }
  client& asker = clients_[from];
  if (asker.waits >= plan_.limits.waits_per_rank) {
    send(from, failed_reply{request.id,
                            error(errc::limit_exceeded,
                                  fmt::format("{} reads of this rank wait already", asker.waits),
                                  "ask for several keys in one read")});
    return;
  }
  ++asker.waits;
  const wait_id id = next_wait_++;
  const time_point by = now + std::chrono::milliseconds(request.limit_ms);
  for (const std::string& key : missing) waiting_for_[key].insert(id);
  wait_deadlines_.emplace(by, id);
  waits_.emplace(id, wait{from, std::move(request), std::move(missing), by});
  if (by <= now) time_out(id);
}

void store_core::arrived(const std::string& key) {
  const auto found = waiting_for_.find(key);
  if (found == waiting_for_.end()) return;
  const std::set<wait_id> waiting = found->second;
  for (const wait_id id : waiting) {
    wait& w = waits_.at(id);
    w.missing.erase(key);
    found->second.erase(id);
    if (!w.missing.empty()) continue;
    answer(w.from, w.request);
    end_wait(id);
  }
  waiting_for_.erase(key);
}

void store_core::answer(connection to, const get_request& request) {
  std::size_t bytes = 0;
  for (const std::string& key : request.keys) bytes += values_.at(key).size() + 4;
  // Kind, id and count take 13 bytes.
  if (bytes + 13 > plan_.limits.reply_bytes) {
    send(to, failed_reply{request.id, error(errc::limit_exceeded,
                                            fmt::format("the values of {} keys take {} bytes",
                                                        request.keys.size(), bytes),
                                            "ask for fewer keys in one read")});
    return;
  }
  values_reply reply{request.id, {}};
  for (const std::string& key : request.keys) reply.values.push_back(values_.at(key));
  send(to, std::move(reply));
}

void store_core::time_out(wait_id id) {
  const wait& w = waits_.at(id);
  const double limit_s = seconds(std::chrono::milliseconds(w.request.limit_ms));
  std::vector<std::string> shown;
  for (const std::string& key : w.missing) shown.push_back(printable(key));
  const error why(errc::timed_out,
                  fmt::format("{} {} never came to rank 0's store within {:g} s",
                              shown.size() == 1 ? "key" : "keys", names(shown, "'{}'"), limit_s),
                  "look at the rank that was to set it");
  send(w.from, failed_reply{w.request.id, why});
  end_wait(id);
}

void store_core::end_wait(wait_id id) {
  const auto found = waits_.find(id);
  const wait& w = found->second;
  for (const std::string& key : w.missing) {
    const auto waiting = waiting_for_.find(key);
    waiting->second.erase(id);
    if (waiting->second.empty()) waiting_for_.erase(waiting);
  }
  wait_deadlines_.erase({w.by, id});
  if (const auto asker = clients_.find(w.from); asker != clients_.end()) --asker->second.waits;
  waits_.erase(found);
}

void store_core::end_waits_of(connection from) {
  for (auto at = waits_.begin(); at != waits_.end();) {
    const auto here = at++;
    if (here->second.from == from) end_wait(here->first);
  }
}

// --- connections

void store_core::forget(connection from) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  if (found->second.waits > 0) end_waits_of(from);
  identifying_.erase({found->second.identify_by, from});
  clients_.erase(found);
}

void store_core::drop(connection from, const std::string& why) {
  ++dropped_;
  warn(fmt::format("dropped the connection from {}: {}", clients_[from].address, why));
  forget(from);
  outputs_.push_back({from, {}, true});
}

void store_core::tell_all(const store_reply& message) {
  for (const seat& place : seats_) {
    if (place.is == presence::here) send(place.by, message);
  }
}

void store_core::send(connection to, store_reply message, bool close) {
  outputs_.push_back({to, std::move(message), close});
}

}  // namespace tandem::rendezvous
