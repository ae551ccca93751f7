#include <fmt/format.h>

#include <algorithm>
#include <tandem/pipeline.hpp>

namespace tandem {

std::string_view name(pipeline_kind kind) noexcept {
  return kind == pipeline_kind::gpipe ? "gpipe" : "one_f_one_b";
}

pipeline_schedule make_schedule(pipeline_kind kind, int stage, int stages, int micro_batches) {
  const int ahead =
      kind == pipeline_kind::gpipe ? micro_batches : std::min(stages - stage - 1, micro_batches);
  pipeline_schedule steps;
  steps.reserve(2 * static_cast<std::size_t>(micro_batches));
  for (int i = 0; i < ahead; ++i) steps.push_back({pipeline_step::forward, i});
  for (int i = ahead; i < micro_batches; ++i) {
    steps.push_back({pipeline_step::forward, i});
    steps.push_back({pipeline_step::backward, i - ahead});
  }
  for (int i = micro_batches - ahead; i < micro_batches; ++i) {
    steps.push_back({pipeline_step::backward, i});
  }
  return steps;
}

std::vector<pipeline_schedule> make_schedules(pipeline_kind kind, int stages, int micro_batches) {
  std::vector<pipeline_schedule> all;
  for (int stage = 0; stage < stages; ++stage) {
    all.push_back(make_schedule(kind, stage, stages, micro_batches));
  }
  return all;
}

std::string print(const std::vector<pipeline_schedule>& stages) {
  const schedule_check simulated = check(stages);
  std::size_t width = 2;
  std::vector<std::vector<std::string>> cells(stages.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (std::size_t i = 0; i < simulated.begin_slots[s].size(); ++i) {
      const pipeline_step step = stages[s][i];
      const auto slot = static_cast<std::size_t>(simulated.begin_slots[s][i]);
      cells[s].resize(slot + 1);
      cells[s][slot] =
          fmt::format("{}{}", step.what == pipeline_step::forward ? 'F' : 'B', step.micro_batch);
      width = std::max(width, cells[s][slot].size());
    }
  }
  std::string text;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    std::string line = fmt::format("stage {} ", s);
    for (const std::string& cell : cells[s]) {
      line += fmt::format(" {:<{}}", cell.empty() ? ".." : cell, width);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  if (!simulated.problem.empty()) text += simulated.problem + '\n';
  return text;
}

}  // namespace tandem
