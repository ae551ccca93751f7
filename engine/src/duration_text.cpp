#include <fmt/format.h>

#include <tandem/detail/duration_text.hpp>

namespace tandem::detail {

std::string to_text(std::chrono::nanoseconds time) {
  const double time_s = std::chrono::duration<double>(time).count();
  if (time.count() > 0 && time_s < 0.001) return "less than 0.001 s";
  if (time_s >= 999.5) return fmt::format("{:.0f} s", time_s);
  return fmt::format("{:.3g} s", time_s);
}

}  // namespace tandem::detail
