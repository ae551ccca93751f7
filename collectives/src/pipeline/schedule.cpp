#include <fmt/format.h>

#include <algorithm>
#include <tandem/error.hpp>
#include <tandem/pipeline_schedule.hpp>

#include "pipeline/orders.hpp"

namespace tandem {
namespace {

constexpr pipeline_kind all_kinds[] = {pipeline_kind::gpipe,       pipeline_kind::one_f_one_b,
                                       pipeline_kind::interleaved, pipeline_kind::zb_h1,
                                       pipeline_kind::zb_v,        pipeline_kind::v_uneven};
constexpr int max_cost = 1'000'000;

error shape_error(const pipeline_shape& shape, const std::string& what, std::string advice = {}) {
  return error(errc::bad_input, fmt::format("pipeline schedule {}: {}", name(shape.kind), what),
               std::move(advice));
}

void check_costs(const pipeline_shape& shape, int chunks) {
  if (shape.costs.empty()) return;
  const std::size_t stages =
      static_cast<std::size_t>(shape.ranks) * static_cast<std::size_t>(chunks);
  if (shape.costs.size() != stages)
    throw shape_error(shape, fmt::format("{} costs for {} stages", shape.costs.size(), stages));
  for (const stage_cost& one : shape.costs) {
    for (const int cost : {one.forward, one.backward_input, one.backward_weights}) {
      if (cost < 1 || cost > max_cost)
        throw shape_error(shape, fmt::format("the cost {} is not within 1 and {}", cost, max_cost));
    }
  }
}

/// The number of chunks. Throws if the shape is invalid.
int checked_chunks(const pipeline_shape& shape) {
  if (shape.kind > pipeline_kind::v_uneven)
    throw error(errc::bad_input, "there is no such pipeline schedule");
  const int usual = usual_chunks(shape.kind);
  const int chunks = shape.chunks == 0 ? usual : shape.chunks;
  if (shape.ranks < 1 || chunks < 1 || shape.micro_batches < 0 ||
      std::int64_t{shape.ranks} * chunks > max_pipeline_stages ||
      std::int64_t{shape.ranks} * chunks * shape.micro_batches > max_pipeline_steps) {
    throw shape_error(shape, fmt::format("{} ranks with {} chunks, {} micro-batches: out of range",
                                         shape.ranks, chunks, shape.micro_batches));
  }
  if (chunks != usual && shape.kind != pipeline_kind::interleaved) {
    throw shape_error(shape, fmt::format("{} chunks, but it has {}", chunks, usual),
                      "interleaved takes any number of chunks");
  }
  if (shape.max_stash < 0 || shape.max_stash == 1)
    throw shape_error(shape, fmt::format("a limit of {} stashed micro-batches", shape.max_stash));
  check_costs(shape, chunks);
  return chunks;
}

pipeline_steps steps_of(const pipeline_shape& shape, int rank, int chunks) {
  switch (shape.kind) {
    case pipeline_kind::gpipe:
      return detail::gpipe_order(shape.micro_batches);
    case pipeline_kind::one_f_one_b:
      return detail::one_f_one_b_order(rank, shape.ranks, shape.micro_batches);
    case pipeline_kind::interleaved:
      return detail::interleaved_order(rank, shape.ranks, shape.micro_batches, chunks);
    case pipeline_kind::zb_h1:
      return detail::zb_h1_order(rank, shape.ranks, shape.micro_batches);
    case pipeline_kind::zb_v:
    case pipeline_kind::v_uneven:
      break;
  }
  return detail::zb_v_order(rank, shape.ranks, shape.micro_batches);
}

}  // namespace

std::span<const pipeline_kind> pipeline_kinds() noexcept {
  return all_kinds;
}

std::string_view name(pipeline_kind kind) noexcept {
  constexpr std::string_view names[] = {"gpipe", "one_f_one_b", "interleaved",
                                        "zb_h1", "zb_v",        "v_uneven"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name(pipeline_step::kind what) noexcept {
  constexpr std::string_view names[] = {"forward", "backward", "backward input",
                                        "backward weights"};
  return names[what];
}

pipeline_kind find_pipeline_kind(std::string_view name) {
  if (name == "1f1b") return pipeline_kind::one_f_one_b;
  std::string known;
  for (const pipeline_kind kind : all_kinds) {
    if (tandem::name(kind) == name) return kind;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", tandem::name(kind));
  }
  throw error(errc::bad_input, fmt::format("there is no pipeline schedule '{}'", name),
              "choose one of " + known);
}

int usual_chunks(pipeline_kind kind) noexcept {
  return kind == pipeline_kind::interleaved || placement_of(kind) == pipeline_placement::v ? 2 : 1;
}

pipeline_placement placement_of(pipeline_kind kind) noexcept {
  const bool is_v = kind == pipeline_kind::zb_v || kind == pipeline_kind::v_uneven;
  return is_v ? pipeline_placement::v : pipeline_placement::looped;
}

int stage_of(pipeline_placement placement, chunk_location at, int ranks) noexcept {
  const bool runs_back = placement == pipeline_placement::v && at.chunk % 2 == 1;
  return at.chunk * ranks + (runs_back ? ranks - 1 - at.rank : at.rank);
}

chunk_location location_of(pipeline_placement placement, int stage, int ranks) noexcept {
  const int chunk = stage / ranks;
  const bool runs_back = placement == pipeline_placement::v && chunk % 2 == 1;
  return {runs_back ? ranks - 1 - stage % ranks : stage % ranks, chunk};
}

pipeline_schedule make_schedule(const pipeline_shape& shape) {
  const int chunks = checked_chunks(shape);
  if (shape.kind == pipeline_kind::v_uneven) return detail::make_v_uneven(shape);
  pipeline_schedule all{placement_of(shape.kind), chunks, shape.micro_batches, {}};
  all.ranks.reserve(static_cast<std::size_t>(shape.ranks));
  for (int rank = 0; rank < shape.ranks; ++rank) all.ranks.push_back(steps_of(shape, rank, chunks));
  return all;
}

std::uint64_t hash_of(const pipeline_schedule& all) noexcept {
  // FNV-1a over 64-bit words.
  std::uint64_t hash = 14695981039346656037u;
  const auto add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 1099511628211u; };
  add(static_cast<std::uint64_t>(all.placement));
  add(static_cast<std::uint64_t>(all.chunks));
  add(static_cast<std::uint64_t>(all.micro_batches));
  for (const pipeline_steps& steps : all.ranks) {
    add(steps.size());
    for (const pipeline_step& step : steps) {
      add(std::uint64_t{step.what} << 56 | static_cast<std::uint64_t>(step.chunk) << 32 |
          static_cast<std::uint32_t>(step.micro_batch));
    }
  }
  return hash;
}

}  // namespace tandem
