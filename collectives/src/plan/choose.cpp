#include <fmt/format.h>

#include <algorithm>
#include <tandem/detail/board.hpp>
#include <tandem/plan.hpp>
#include <utility>

#include "plan/cost.hpp"
#include "plan/pins.hpp"

namespace tandem {
namespace {

constexpr std::size_t min_bytes = 8;
constexpr std::size_t max_bytes = std::size_t{1} << 30;
constexpr std::size_t min_chunk_bytes = 64 * 1024;
/// The chunk for copy engines and kernels: each has a fixed cost of some 10 us, in which a link
/// between two devices transfers 4 MB.
constexpr std::size_t device_chunk_bytes = std::size_t{16} << 20;

/// An algorithm and chunk for an operation. Its steps do not depend on the length.
struct candidate {
  algorithm how;
  std::size_t chunk_bytes;
  std::vector<detail::step> steps;
};

struct estimate {
  const candidate* of = nullptr;
  std::uint64_t ns = 0;
};

std::vector<candidate> candidates_of(collective what, const detail::layout& where,
                                     std::size_t longest, bool has_board) {
  std::vector<candidate> result;
  for (const algorithm how : algorithms_of(what)) {
    if (how == algorithm::two_level && !where.two_levels()) continue;
    if (how == algorithm::board && !has_board) continue;
    const std::vector<detail::step> steps = detail::steps_of(what, how, where);
    std::size_t chunk = longest;
    result.push_back({how, chunk, steps});
    while (has_chunks(what, how) && chunk / 2 >= min_chunk_bytes) {
      chunk /= 2;
      result.push_back({how, chunk, steps});
    }
  }
  return result;
}

std::vector<estimate> estimates(const std::vector<candidate>& of, const facts& known,
                                std::size_t bytes) {
  std::vector<estimate> result;
  for (const candidate& c : of) {
    // A rule applies up to the next power of two.
    if (c.how == algorithm::board && bytes >= board::max_bytes) continue;
    result.push_back({&c, detail::predict_ns(c.steps, known, bytes, c.chunk_bytes)});
  }
  // Among equal predictions the ring comes last: the model does not include its chunk bookkeeping,
  // 0.59 us where direct takes 0.52 (all_gather of 8 bytes between two ranks of a host).
  const auto worth = [](const estimate& e) {
    return std::pair(e.ns, e.of->how == algorithm::ring);
  };
  std::ranges::stable_sort(result, {}, worth);
  return result;
}

/// The fastest, or `current` if it is within a fiftieth of that.
const candidate* chosen_of(const std::vector<estimate>& sorted, const candidate* current) {
  const std::uint64_t best = sorted.front().ns;
  const auto same = std::ranges::find(sorted, current, &estimate::of);
  return same != sorted.end() && same->ns <= best + best / 50 ? current : sorted.front().of;
}

std::string reason(const std::vector<estimate>& sorted, const estimate& chosen, std::size_t bytes) {
  std::string text = fmt::format("{}; {} takes {}", detail::describe(chosen.of->steps),
                                 format_bytes(bytes), detail::time_text(chosen.ns));
  for (const estimate& other : sorted) {
    if (other.of->how == chosen.of->how) continue;
    return text + fmt::format(", {} {}", name(other.of->how), detail::time_text(other.ns));
  }
  return text;
}

void add_rules(std::vector<plan_rule>& rules, collective what, const detail::layout& where,
               const facts& known, const settings& options) {
  const std::size_t least = known.on_devices ? device_chunk_bytes : 1;
  const std::size_t longest = std::max(options.collective_chunk_bytes, least);
  const std::vector<candidate> candidates =
      candidates_of(what, where, longest, known.has_board && !known.on_devices);
  if (where.ranks() < 2) {
    const candidate& any = candidates.front();
    rules.push_back({what, 0, any.how, any.chunk_bytes, "one rank: nothing is sent"});
    return;
  }
  // The order of a reduction must not follow from what was measured in this run. Two ranks have one
  // order, as what combines two elements commutes.
  const bool combines = what == collective::all_reduce || what == collective::reduce ||
                        what == collective::reduce_scatter;
  const bool is_fixed = combines && known.probed && options.reproducible && where.ranks() > 2;
  facts fixed;
  std::vector<candidate> in_general;
  if (is_fixed) {
    fixed = detail::nominal(known);
    in_general = candidates_of(what, where, longest, fixed.has_board && !fixed.on_devices);
  }
  const candidate* kept = nullptr;
  const candidate* usual = nullptr;
  for (std::size_t bytes = min_bytes; bytes <= max_bytes; bytes *= 2) {
    std::vector<estimate> sorted = estimates(candidates, known, bytes);
    if (is_fixed) {
      usual = chosen_of(estimates(in_general, fixed, bytes), usual);
      const int order = detail::order_of(what, usual->how);
      std::erase_if(sorted, [what, order](const estimate& e) {
        return detail::order_of(what, e.of->how) != order;
      });
    }
    const candidate* const next = chosen_of(sorted, kept);
    if (next == kept) continue;
    const std::size_t from = kept == nullptr ? 0 : bytes;
    kept = next;
    rules.push_back(
        {what, from, kept->how, kept->chunk_bytes, reason(sorted, sorted.front(), bytes)});
  }
}

}  // namespace

plan plan::of(const facts& known, const settings& options) {
  const std::vector<detail::pin> pins = detail::parse_pins(options.plan);
  const detail::layout where(known.host_of_rank);
  std::vector<plan_rule> rules;
  for (std::size_t i = 0; i < collective_count; ++i) {
    add_rules(rules, static_cast<collective>(i), where, known, options);
  }
  return plan(detail::with_pins(std::move(rules), pins), known);
}

}  // namespace tandem
