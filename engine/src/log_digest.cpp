#include <fmt/format.h>

#include <tandem/log_digest.hpp>

namespace tandem {
namespace {
constexpr std::chrono::seconds quiet_time{10};
}

log_digest::~log_digest() {
  for (auto& [kind, of] : kinds_) {
    if (of.unsaid > 0) say(of);
  }
}

void log_digest::add(std::string_view kind, std::string_view text, time_point now) {
  const auto [found, is_new] = kinds_.try_emplace(std::string(kind));
  count& of = found->second;
  if (is_new) {
    of.said = now;
    log(level_, room_, text);
    return;
  }
  of.last = text;
  ++of.unsaid;
  if (now - of.said < quiet_time) return;
  say(of);
  of.said = now;
}

void log_digest::say(count& of) {
  log(level_, room_, fmt::format("{} more of this kind, the last: {}", of.unsaid, of.last));
  of.unsaid = 0;
}

}  // namespace tandem
