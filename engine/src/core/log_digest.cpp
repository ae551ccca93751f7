#include <fmt/format.h>

#include <tandem/detail/log_digest.hpp>

namespace tandem {
namespace {
constexpr std::chrono::seconds report_interval{10};
}

log_digest::~log_digest() {
  for (auto& [kind, of] : kinds_) {
    if (of.unreported > 0) report(of);
  }
}

void log_digest::add(std::string_view kind, std::string_view text, time_point now) {
  const auto [found, is_new] = kinds_.try_emplace(std::string(kind));
  count& of = found->second;
  if (is_new) {
    of.last_report = now;
    log(level_, component_, text);
    return;
  }
  of.last = text;
  ++of.unreported;
  if (now - of.last_report < report_interval) return;
  report(of);
  of.last_report = now;
}

void log_digest::report(count& of) {
  log(level_, component_,
      fmt::format("{} more of this kind, the last: {}", of.unreported, of.last));
  of.unreported = 0;
}

}  // namespace tandem
