#include <fmt/format.h>

#include <algorithm>
#include <tandem/pipeline_schedule.hpp>

namespace tandem {
namespace {

std::string cell_of(const pipeline_step& step, int chunks) {
  constexpr char letters[] = {'F', 'B', 'I', 'W'};
  std::string text = fmt::format("{}{}", letters[step.what], step.micro_batch);
  if (chunks > 26) return text + fmt::format(".{}", step.chunk);
  if (chunks > 1) text += static_cast<char>('a' + step.chunk);
  return text;
}

std::size_t slots_of(const pipeline_step& step, const stage_cost& cost) {
  const int slots = step.what == pipeline_step::forward          ? cost.forward
                    : step.what == pipeline_step::backward_input ? cost.backward_input
                    : step.what == pipeline_step::backward_weights
                        ? cost.backward_weights
                        : cost.backward_input + cost.backward_weights;
  return static_cast<std::size_t>(slots);
}

}  // namespace

std::string print(const pipeline_schedule& all, std::span<const stage_cost> costs) {
  const schedule_check simulated = check(all, costs);
  std::size_t width = 2;
  std::vector<std::vector<std::string>> cells(simulated.begin_slots.size());
  for (std::size_t r = 0; r < cells.size(); ++r) {
    for (std::size_t i = 0; i < simulated.begin_slots[r].size(); ++i) {
      const pipeline_step& step = all.ranks[r][i];
      const int stage = stage_of(all.placement, {static_cast<int>(r), step.chunk}, all.size());
      const auto slot = static_cast<std::size_t>(simulated.begin_slots[r][i]);
      const std::size_t slots =
          costs.empty() ? 1 : slots_of(step, costs[static_cast<std::size_t>(stage)]);
      cells[r].resize(slot);
      cells[r].push_back(cell_of(step, all.chunks));
      cells[r].resize(slot + slots, "--");
      width = std::max(width, cells[r][slot].size());
    }
  }
  const std::size_t rank_width = std::to_string(cells.size()).size();
  std::string text;
  for (std::size_t r = 0; r < cells.size(); ++r) {
    std::string line = fmt::format("rank {:<{}} ", r, rank_width);
    for (const std::string& cell : cells[r]) {
      line += fmt::format(" {:<{}}", cell.empty() ? ".." : cell, width);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  if (!simulated.problem.empty()) text += simulated.problem + '\n';
  return text;
}

}  // namespace tandem
