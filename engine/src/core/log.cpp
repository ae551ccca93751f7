#include <atomic>
#include <memory>
#include <mutex>
#include <tandem/detail/stderr_sink.hpp>
#include <tandem/log.hpp>
#include <utility>

namespace tandem {
namespace {

struct state {
  std::mutex mutex;
  std::shared_ptr<const log_sink> sink;
  std::atomic<int> min_level{static_cast<int>(log_level::error) +
                             1};  // nothing until a sink is set
  bool was_set = false;
};

state& global() {
  static state instance;
  return instance;
}

}  // namespace

std::string_view name(log_level level) noexcept {
  switch (level) {
    case log_level::debug:
      return "debug";
    case log_level::info:
      return "info";
    case log_level::warning:
      return "warning";
    case log_level::error:
      return "error";
  }
  return "unknown";
}

log_sink set_log_sink(log_sink sink, log_level min_level) {
  state& s = global();
  auto fresh = sink ? std::make_shared<const log_sink>(std::move(sink)) : nullptr;
  const std::lock_guard lock(s.mutex);
  s.was_set = true;
  s.min_level = fresh ? static_cast<int>(min_level) : static_cast<int>(log_level::error) + 1;
  auto old = std::exchange(s.sink, std::move(fresh));
  return old ? *old : log_sink{};
}

bool log_enabled(log_level level) noexcept {
  return static_cast<int>(level) >= global().min_level.load(std::memory_order_relaxed);
}

void log(log_level level, std::string_view component, std::string_view text) {
  if (!log_enabled(level)) return;
  std::shared_ptr<const log_sink> sink;
  {
    const std::lock_guard lock(global().mutex);
    sink = global().sink;
  }
  if (sink) (*sink)({level, component, text});
}

void detail::warn_program(std::string_view component, std::string_view text) {
  bool has_program_sink = false;
  {
    const std::lock_guard lock(global().mutex);
    has_program_sink = global().was_set;
  }
  if (has_program_sink) return log(log_level::warning, component, text);
  print_record({log_level::warning, component, text});
}

}  // namespace tandem
