#include "rendezvous/store_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tandem/detail/duration_text.hpp>

namespace tandem::rendezvous {

std::string list_text(const std::vector<std::string>& all) {
  constexpr std::size_t max_listed = 16;
  const std::size_t shown = std::min(all.size(), max_listed);
  std::string text = fmt::format(
      "{}", fmt::join(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (all.size() > max_listed) text += fmt::format(" and {} more", all.size() - max_listed);
  return text;
}

void store_keys::received(connection_id from, store_request request, time_point now) {
  if (auto* value = std::get_if<set_request>(&request)) {
    set(from, *value);
  } else if (const auto* amount = std::get_if<add_request>(&request)) {
    add(from, *amount);
  } else if (auto* keys = std::get_if<get_request>(&request)) {
    get(from, *keys, now);
  }
}

void store_keys::tick(time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    time_out(deadlines_.begin()->second);
  }
}

void store_keys::forget(connection_id from) {
  if (!waits_of_.contains(from)) return;
  for (auto at = waits_.begin(); at != waits_.end();) {
    const auto here = at++;
    if (here->second.from == from) end_wait(here->first);
  }
}

void store_keys::fail(const error& cause) {
  while (!waits_.empty()) end_wait(waits_.begin()->first);
  cause_ = cause;
}

std::optional<store_keys::time_point> store_keys::next_deadline() const {
  if (deadlines_.empty()) return {};
  return deadlines_.begin()->first;
}

std::optional<error> store_keys::check_limits(const std::string& key, std::size_t bytes,
                                              bool is_new) const {
  if (cause_) return *cause_;
  if (key.empty() || key.size() > limits_.key_bytes) {
    return error(errc::limit_exceeded, fmt::format("a key of {} bytes", key.size()),
                 fmt::format("use 1 to {} bytes", limits_.key_bytes));
  }
  const std::size_t held = values_.size() + counters_.size();
  const std::size_t added = bytes + (is_new ? key.size() : 0);
  if ((is_new && held >= limits_.keys) || bytes_ + added > limits_.total_bytes) {
    return error(
        errc::limit_exceeded, fmt::format("the store is full: {} keys, {} bytes", held, bytes_),
        fmt::format("it is for addresses and other small values: at most {} keys, {} bytes",
                    limits_.keys, limits_.total_bytes));
  }
  return {};
}

void store_keys::set(connection_id from, set_request& request) {
  const auto old = values_.find(request.key);
  const bool is_new = old == values_.end();
  const std::size_t old_bytes = is_new ? 0 : old->second.size();
  const std::size_t new_bytes = request.value.size();
  const std::size_t growth = new_bytes - std::min(new_bytes, old_bytes);
  if (const std::optional<error> why = check_limits(request.key, growth, is_new)) {
    reply(from, failed_reply{request.id, *why});
    return;
  }
  bytes_ += new_bytes + (is_new ? request.key.size() : 0);
  bytes_ -= old_bytes;
  values_[request.key] = std::move(request.value);
  reply(from, done_reply{request.id});
  if (is_new) complete_reads(request.key);
}

void store_keys::add(connection_id from, const add_request& request) {
  const auto old = counters_.find(request.key);
  const bool is_new = old == counters_.end();
  std::optional<error> why = check_limits(request.key, is_new ? sizeof(std::int64_t) : 0, is_new);
  std::int64_t value = is_new ? 0 : old->second;
  if (!why && __builtin_add_overflow(value, request.amount, &value)) {
    why =
        error(errc::limit_exceeded, fmt::format("counter '{}' overflows", printable(request.key)));
  }
  if (why) {
    reply(from, failed_reply{request.id, *why});
    return;
  }
  if (is_new) bytes_ += request.key.size() + sizeof(std::int64_t);
  counters_[request.key] = value;
  reply(from, number_reply{request.id, value});
}

void store_keys::get(connection_id from, get_request& request, time_point now) {
  if (cause_) {
    reply(from, failed_reply{request.id, *cause_});
    return;
  }
  std::set<std::string> missing;
  for (const std::string& key : request.keys) {
    if (!values_.contains(key)) missing.insert(key);
  }
  if (missing.empty()) {
    reply_values(from, request);
    return;
  }
  std::size_t& waits = waits_of_[from];
  if (waits >= limits_.waits_per_connection) {
    reply(from,
          failed_reply{request.id, error(errc::limit_exceeded,
                                         fmt::format("{} reads of this rank are pending", waits),
                                         "read several keys in one request")});
    return;
  }
  ++waits;
  const wait_id id = next_wait_++;
  const time_point by = now + std::chrono::milliseconds(request.limit_ms);
  for (const std::string& key : missing) waiting_for_[key].insert(id);
  deadlines_.emplace(by, id);
  waits_.emplace(id, wait{from, std::move(request), std::move(missing), by});
  if (by <= now) time_out(id);
}

void store_keys::complete_reads(const std::string& key) {
  const auto found = waiting_for_.find(key);
  if (found == waiting_for_.end()) return;
  const std::set<wait_id> waiting = std::move(found->second);
  waiting_for_.erase(found);
  for (const wait_id id : waiting) {
    wait& w = waits_.at(id);
    w.missing.erase(key);
    if (!w.missing.empty()) continue;
    reply_values(w.from, w.request);
    end_wait(id);
  }
}

void store_keys::reply_values(connection_id to, const get_request& request) {
  std::size_t bytes = 13;  // kind, id, count
  for (const std::string& key : request.keys) bytes += 4 + values_.at(key).size();
  if (bytes > limits_.reply_bytes) {
    reply(to, failed_reply{request.id, error(errc::limit_exceeded,
                                             fmt::format("the values of {} keys take {} bytes",
                                                         request.keys.size(), bytes),
                                             "read fewer keys in one request")});
    return;
  }
  values_reply all{request.id, {}};
  all.values.reserve(request.keys.size());
  for (const std::string& key : request.keys) all.values.push_back(values_.at(key));
  reply(to, std::move(all));
}

void store_keys::time_out(wait_id id) {
  const wait& w = waits_.at(id);
  std::vector<std::string> missing;
  for (const std::string& key : w.missing) missing.push_back(fmt::format("'{}'", printable(key)));
  const error why(errc::timed_out,
                  fmt::format("{} {} missing in rank 0's store: not set within {}",
                              missing.size() == 1 ? "key" : "keys", list_text(missing),
                              detail::to_text(std::chrono::milliseconds(w.request.limit_ms))),
                  "check the rank that sets it");
  reply(w.from, failed_reply{w.request.id, why});
  end_wait(id);
}

void store_keys::end_wait(wait_id id) {
  const auto found = waits_.find(id);
  const wait& w = found->second;
  for (const std::string& key : w.missing) {
    const auto waiting = waiting_for_.find(key);
    waiting->second.erase(id);
    if (waiting->second.empty()) waiting_for_.erase(waiting);
  }
  deadlines_.erase({w.by, id});
  const auto count = waits_of_.find(w.from);
  if (--count->second == 0) waits_of_.erase(count);
  waits_.erase(found);
}

}  // namespace tandem::rendezvous
