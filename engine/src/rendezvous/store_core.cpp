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

error blame(errc code, int peer, std::string detail, std::string advice) {
  error_context c;
  c.peer = peer;
  c.detail = std::move(detail);
  c.advice = std::move(advice);
  return error(make_error_code(code), std::move(c));
}

}  // namespace

store_core::store_core(plan how)
    : plan_(std::move(how)),
      seats_(static_cast<std::size_t>(plan_.size)),
      keys_(plan_.limits.keys) {}

void store_core::opened(connection from, std::string address, time_point now) {
  const time_point by = now + plan_.limits.identify;
  make_room(now);
  clients_[from] = client{std::move(address), -1, by};
  identifying_.emplace(by, from);
}

void store_core::make_room(time_point now) {
  if (identifying_.size() < plan_.limits.strangers) return;
  const auto is_silent = [this](const auto& one) { return !clients_[one.second].spoke; };
  const auto found = std::find_if(identifying_.begin(), identifying_.end(), is_silent);
  const auto going = found == identifying_.end() ? identifying_.begin() : found;
  drop(going->second, "crowd",
       fmt::format("{} connections have not identified themselves", identifying_.size()), now);
}

void store_core::heard(connection from) {
  const auto found = clients_.find(from);
  if (found != clients_.end()) found->second.spoke = true;
}

void store_core::received(connection from, store_request request, time_point now) {
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
    deliver();
  }
}

void store_core::untrusted(connection from, const std::string& why, time_point now) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  if (found->second.rank >= 0) {
    malformed(from, why, now);
  } else {
    drop(from, "trust", why, now);
  }
}

void store_core::malformed(connection from, const std::string& why, time_point now) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  const int rank = found->second.rank;
  drop(from, "bytes", why, now);
  if (rank >= 0) {
    lose(rank, errc::protocol_violation,
         fmt::format("rank {} violated the protocol of rank 0's store: {}", rank, why));
  }
}

void store_core::closed(connection from, const std::string& how) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  const int rank = found->second.rank;
  forget(from);
  if (rank < 0) return;
  lose(rank, errc::peer_lost,
       fmt::format("rank {} is gone: its connection to rank 0's store closed unexpectedly{}", rank,
                   how.empty() ? "" : fmt::format(" ({})", how)));
}

void store_core::put(std::string key, std::string value, time_point now) {
  constexpr connection nobody = 0;
  keys_.received(nobody, set_request{0, std::move(key), std::move(value)}, now);
  for (store_keys::answer& a : keys_.take()) {
    if (a.to != nobody) send(a.to, std::move(a.message));
  }
}

void store_core::tick(time_point now) {
  while (!identifying_.empty() && identifying_.begin()->first <= now) {
    drop(identifying_.begin()->second, "silent",
         fmt::format("handshake timeout: not identified within {}",
                     detail::to_text(plan_.limits.identify)),
         now);
  }
  keys_.tick(now);
  deliver();
  if (phase_ == phase::meeting && plan_.meet_by <= now) fail(missing_ranks());
}

std::optional<store_core::time_point> store_core::next_deadline() const {
  std::optional<time_point> next;
  const auto consider = [&next](time_point at) { next = std::min(next.value_or(at), at); };
  if (phase_ == phase::meeting) consider(plan_.meet_by);
  if (!identifying_.empty()) consider(identifying_.begin()->first);
  if (const auto waits = keys_.next_deadline()) consider(*waits);
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
    return error(
        errc::bad_input,
        fmt::format("rank {} is out of range in a job of {} ranks", hello.rank, plan_.size),
        fmt::format("ranks count from 0 to {}", plan_.size - 1));
  }
  if (cause_) return *cause_;
  const seat& wanted = seats_[static_cast<std::size_t>(hello.rank)];
  if (wanted.is == presence::absent) return {};
  const char* state = wanted.is == presence::here ? "joined" : "joined and disconnected";
  return error(
      errc::rank_taken,
      fmt::format("rank {} of the job at {} has already {}", hello.rank, plan_.where, state),
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
  // The earliest deadline of any rank holds for all, so that all end with the same error.
  const time_point by = now + std::chrono::milliseconds(hello.left_ms);
  if (by < plan_.meet_by) {
    plan_.meet_by = by;
    plan_.meet_timeout = std::chrono::milliseconds(hello.limit_ms);
  }
  if (++present_ == plan_.size) {
    phase_ = phase::running;
    tell_all(started_reply{std::string(plan_.data_key.text())});
  }
}

void store_core::leave(int rank) {
  seat& place = seats_[static_cast<std::size_t>(rank)];
  if (place.is != presence::here) return;
  const connection by = place.by;
  forget(by);
  if (phase_ == phase::meeting) {
    lose(rank, errc::peer_lost, fmt::format("rank {} left before all ranks had joined", rank));
  }
  if (place.is == presence::here) --present_;
  place.is = presence::left;
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
  --present_;
  fail(blame(code, rank, why, fmt::format("check the last output of rank {}", rank)));
}

void store_core::fail(const error& cause) {
  if (phase_ == phase::failed) return;
  phase_ = phase::failed;
  cause_ = cause;
  keys_.fail(cause);
  tell_all(notice_reply{cause});
}

error store_core::missing_ranks() const {
  std::vector<std::string> missing;
  int first = -1;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (seats_[static_cast<std::size_t>(rank)].is != presence::absent) continue;
    if (missing.empty()) first = rank;
    missing.push_back(std::to_string(rank));
  }
  const bool one = missing.size() == 1;
  return blame(
      errc::rank_missing, first,
      fmt::format("{} {} did not join within {}: {} of {} {} connected", one ? "rank" : "ranks",
                  names(missing), detail::to_text(plan_.meet_timeout), present_, plan_.size,
                  present_ == 1 ? "is" : "are"),
      fmt::format(
          "start {0}, or check that {1} can reach {2}{3}", one ? "it" : "them", one ? "it" : "they",
          plan_.where,
          plan_.listens.empty() ? "" : fmt::format("; rank 0 listens on {}", plan_.listens)));
}

// --- connections

void store_core::forget(connection from) {
  const auto found = clients_.find(from);
  if (found == clients_.end()) return;
  keys_.forget(from);
  identifying_.erase({found->second.identify_by, from});
  clients_.erase(found);
}

void store_core::drop(connection from, std::string_view kind, const std::string& why,
                      time_point now) {
  ++dropped_;
  strangers_.add(
      kind, fmt::format("dropped the connection from {}: {}", clients_[from].address, why), now);
  forget(from);
  outputs_.push_back({from, {}, true});
}

void store_core::tell_all(const store_reply& message) {
  for (const seat& place : seats_) {
    if (place.is == presence::here) send(place.by, message);
  }
}

void store_core::deliver() {
  for (store_keys::answer& a : keys_.take()) send(a.to, std::move(a.message));
}

void store_core::send(connection to, store_reply message, bool close) {
  outputs_.push_back({to, std::move(message), close});
}

}  // namespace tandem::rendezvous
