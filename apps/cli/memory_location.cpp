#include "cli/memory_location.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tandem/accelerator.hpp>
#include <tandem/error.hpp>
#include <vector>

#include "cli/text.hpp"

namespace tandem::cli {
namespace {

constexpr memory_kind kinds[] = {memory_kind::host, memory_kind::cuda, memory_kind::hip};

}  // namespace

void check_memory(const std::string& words, std::string_view choices) {
  for (const std::string& word : split_commas(words)) {
    const auto is_it = [&word](memory_kind each) { return word == name(each); };
    if (std::any_of(std::begin(kinds), std::end(kinds), is_it)) continue;
    throw error(errc::bad_option,
                fmt::format("--memory={}: '{}' is not a memory kind", words, word),
                fmt::format("choose {}, or a comma-separated list: cuda,hip", choices));
  }
}

memory_kind memory_kind_for(const std::string& words, int local_rank) {
  const std::vector<std::string> list = split_commas(words);
  const std::string& mine = list[static_cast<std::size_t>(local_rank) % list.size()];
  for (const memory_kind each : kinds) {
    if (mine == name(each)) return each;
  }
  return memory_kind::host;
}

memory_location memory_location_for(const std::string& words, int local_rank) {
  const memory_kind kind = memory_kind_for(words, local_rank);
  if (kind == memory_kind::host) return {};
  const std::size_t devices = find_accelerators(kind).found.size();
  const int device = devices == 0 ? 0 : local_rank % static_cast<int>(devices);
  return {.kind = kind, .device = accelerator_at(kind, device).device()};
}

}  // namespace tandem::cli
