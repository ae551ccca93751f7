#include <fmt/format.h>

#include <string_view>
#include <tandem/error.hpp>
#include <tandem/settings.hpp>
#include <vector>

#include "perf/options.hpp"

namespace tandem::perf {

const operation* parse_operation(const std::string& word) {
  if (const operation* const found = find_operation(word)) return found;
  std::vector<std::string_view> names;
  for (const operation& one : operations()) names.push_back(one.name);
  throw error(errc::bad_option, fmt::format("{}: no such operation", word),
              suggestion_for(word, names));
}

algorithm parse_algorithm(const operation& op, const std::string& word) {
  const std::optional<collective> what = collective_of(op);
  if (!what || what == collective::barrier) {
    throw error(errc::bad_option,
                fmt::format("--algorithm: {} has no choice of algorithms", op.name));
  }
  if (const auto found = find_algorithm(*what, word)) return *found;
  throw error(errc::bad_option,
              fmt::format("--algorithm={}: {} has no such algorithm", word, op.name),
              fmt::format("choose {}", fmt::join(algorithm_names(*what), ", ")));
}

std::optional<collective> collective_of(const operation& op) noexcept {
  if (op.who != rank_pattern::all) return std::nullopt;
  for (std::size_t i = 0; i < collective_count; ++i) {
    if (find_operation(name(static_cast<collective>(i))) == &op) return static_cast<collective>(i);
  }
  return std::nullopt;
}

}  // namespace tandem::perf
