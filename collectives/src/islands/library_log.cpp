#include "islands/library_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace tandem::detail {

library_log::library_log(int rank, std::vector<int> members, std::span<const int> neighbours)
    : members_(std::move(members)), rank_(rank), peers_(members_.size()) {
  for (const int each : neighbours) {
    if (each != rank_) peer_at(each);
  }
}

library_log::peer& library_log::peer_at(int rank) {
  std::unique_ptr<peer>& known = peers_.at(static_cast<std::size_t>(rank));
  if (!known) known = std::make_unique<peer>();
  return *known;
}

void library_log::add(const call_record& collective) {
  const std::lock_guard lock(mutex_);
  collectives_.add(collective.bits());
}

void library_log::add_send(int to, std::size_t bytes) {
  if (to == rank_) return;
  const std::lock_guard lock(mutex_);
  peer_at(to).sends.add(bytes);
}

void library_log::add_receive(int from, std::size_t bytes) {
  if (from == rank_) return;
  const std::lock_guard lock(mutex_);
  peer_at(from).receives.add(bytes);
}

std::vector<int> library_log::peers() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> found;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (find_peer(rank) != nullptr) found.push_back(rank);
  }
  return found;
}

std::uint64_t library_log::own_count(const peer& of) const noexcept {
  return collectives_.count() + of.sends.count() + of.receives.count();
}

std::optional<library_report> library_log::next_report(int to) {
  const std::lock_guard lock(mutex_);
  peer& of = peer_at(to);
  if (std::exchange(of.reported, own_count(of)) == own_count(of)) return std::nullopt;
  return library_report{0, call_log(collectives_), call_log(of.sends), call_log(of.receives)};
}

std::optional<std::string> library_log::take(int from, const library_report& theirs,
                                             clock::time_point now) {
  const std::lock_guard lock(mutex_);
  peer& with = peer_at(from);
  with.has_reported = true;
  const auto update = [](std::uint64_t& count, const call_log& reported) {
    const std::uint64_t before = std::exchange(count, reported.count());
    return before != reported.count();
  };
  bool is_new = update(with.collectives, theirs.collectives);
  is_new = update(with.their_sends, theirs.sends) || is_new;
  is_new = update(with.their_receives, theirs.receives) || is_new;
  if (is_new || !is_behind(with)) with.behind_since.reset();
  if (is_behind(with) && !with.behind_since) with.behind_since = now;
  return compare(from, with, theirs);
}

std::string library_log::call_text(int rank, const char* verb, const std::string& mine,
                                   const std::string& theirs) const {
  const auto at = [this](int which) { return members_[static_cast<std::size_t>(which)]; };
  return fmt::format("rank {} {} {}, rank {} {}", at(rank_), verb, mine, at(rank), theirs);
}

std::optional<std::string> library_log::compare(int from, const peer& with,
                                                const library_report& theirs) const {
  if (const auto call = collectives_.first_difference(theirs.collectives)) {
    const call_record mine(collectives_.at(*call).call);
    const call_record other(theirs.collectives.at(*call).call);
    if (mine.bits() != other.bits()) return call_text(from, "calls", mine.text(), other.text());
    return fmt::format("before this {}, ranks {} and {} made other calls", mine.text(),
                       members_[static_cast<std::size_t>(rank_)],
                       members_[static_cast<std::size_t>(from)]);
  }
  const auto message = [](const auto& log, std::uint64_t which) {
    return fmt::format("message {} of {} bytes", which + 1, log.at(which).call);
  };
  if (const auto which = with.sends.first_difference(theirs.receives)) {
    return call_text(from, "sends", message(with.sends, *which),
                     "receives " + message(theirs.receives, *which));
  }
  if (const auto which = with.receives.first_difference(theirs.sends)) {
    return call_text(from, "receives", message(with.receives, *which),
                     "sends " + message(theirs.sends, *which));
  }
  return std::nullopt;
}

bool library_log::is_behind(const peer& which) const noexcept {
  return which.collectives < collectives_.count() || which.their_receives < which.sends.count() ||
         which.their_sends < which.receives.count();
}

std::optional<int> library_log::find_late(std::chrono::milliseconds limit, clock::time_point now) {
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < ranks(); ++rank) {
    peer* const each = find_peer(rank);
    if (each == nullptr) continue;
    if (!is_behind(*each)) {
      each->behind_since.reset();
    } else if (!each->behind_since) {
      each->behind_since = now;
    } else if (now - *each->behind_since >=
               limit + (each->has_reported ? clock::duration{} : first_report_time)) {
      return rank;
    }
  }
  return std::nullopt;
}

std::string library_log::missing_of(int rank, const peer& which) const {
  std::vector<std::string> parts;
  const auto add = [&](std::uint64_t theirs, std::uint64_t mine, const char* what) {
    if (theirs < mine) parts.push_back(fmt::format("{} of {} {}", theirs, mine, what));
  };
  add(which.collectives, collectives_.count(), "collectives");
  add(which.their_receives, which.sends.count(), "receives from this rank");
  add(which.their_sends, which.receives.count(), "sends to this rank");
  if (parts.empty()) return {};
  return fmt::format("rank {} has made {}", members_[static_cast<std::size_t>(rank)],
                     fmt::join(parts, ", "));
}

std::string library_log::missing_text(int rank) const {
  const std::lock_guard lock(mutex_);
  const peer* const found = find_peer(rank);
  return found == nullptr ? std::string() : missing_of(rank, *found);
}

std::string library_log::missing_text() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> parts;
  for (int rank = 0; rank < ranks(); ++rank) {
    const peer* const each = find_peer(rank);
    if (each == nullptr) continue;
    if (std::string text = missing_of(rank, *each); !text.empty()) parts.push_back(std::move(text));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace tandem::detail
