#include <fmt/format.h>

#include <algorithm>
#include <tandem/pipeline.hpp>

namespace tandem {
namespace {

std::string step_text(const pipeline_step& step) {
  return fmt::format("{} of micro-batch {}",
                     step.what == pipeline_step::forward ? "forward" : "backward",
                     step.micro_batch);
}

/// Checks that every micro-batch has one forward and one backward, both in order and forward first.
/// Returns the problem; empty if there is none.
std::string check_order(const pipeline_schedule& steps, int micro_batches) {
  int forwards = 0;
  int backwards = 0;
  for (const pipeline_step& step : steps) {
    const bool is_forward = step.what == pipeline_step::forward;
    int& due = is_forward ? forwards : backwards;
    if (step.micro_batch != due)
      return fmt::format("{} where {} is expected", step_text(step), due);
    ++due;
    if (backwards > forwards) return fmt::format("{} before its forward", step_text(step));
  }
  if (forwards != micro_batches || backwards != micro_batches) {
    return fmt::format("{} forwards and {} backwards of {} micro-batches", forwards, backwards,
                       micro_batches);
  }
  return {};
}

/// The progress of one stage; both orders are 0, 1, 2..., so counts are enough.
struct progress {
  std::size_t next = 0;  ///< step
  int forwards = 0;      ///< completed
  int backwards = 0;
};

class simulation {
 public:
  simulation(const std::vector<pipeline_schedule>& stages, int buffers)
      : stages_(stages), buffers_(buffers), now_(stages.size()) {}

  bool ended(std::size_t s) const { return now_[s].next == stages_[s].size(); }
  bool all_ended() const {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (!ended(s)) return false;
    }
    return true;
  }

  /// Whether stage `s` can begin its next step: its input has arrived and an output buffer is free.
  bool ready(std::size_t s) const {
    if (ended(s)) return false;
    const pipeline_step& step = stages_[s][now_[s].next];
    const int m = step.micro_batch;
    const bool is_first = s == 0;
    const bool is_last = s + 1 == stages_.size();
    if (step.what == pipeline_step::forward) {
      return (is_first || now_[s - 1].forwards > m) &&
             (is_last || m - now_[s + 1].forwards < buffers_);
    }
    return (is_last || now_[s + 1].backwards > m) &&
           (is_first || m - now_[s - 1].backwards < buffers_);
  }

  void end_step(std::size_t s) {
    const pipeline_step& step = stages_[s][now_[s].next++];
    ++(step.what == pipeline_step::forward ? now_[s].forwards : now_[s].backwards);
  }

  int stash(std::size_t s) const { return now_[s].forwards - now_[s].backwards; }

  std::string deadlock_text() const {
    std::string text = "deadlock between the stages:";
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (!ended(s))
        text += fmt::format(" stage {} at {};", s, step_text(stages_[s][now_[s].next]));
    }
    text.pop_back();
    return text;
  }

 private:
  const std::vector<pipeline_schedule>& stages_;
  const int buffers_;
  std::vector<progress> now_;
};

}  // namespace

schedule_check check(const std::vector<pipeline_schedule>& stages, int buffers) {
  schedule_check result;
  result.peak_stash.resize(stages.size());
  result.begin_slots.resize(stages.size());
  const int micro_batches = stages.empty() ? 0 : static_cast<int>(stages.front().size() / 2);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::string wrong = check_order(stages[s], micro_batches);
    if (wrong.empty()) continue;
    result.problem = fmt::format("stage {}: {}", s, wrong);
    return result;
  }
  simulation all(stages, buffers);
  while (!all.all_ended()) {
    std::vector<std::size_t> running;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      if (all.ready(s)) running.push_back(s);
    }
    if (running.empty()) {
      result.problem = all.deadlock_text();
      return result;
    }
    for (const std::size_t s : running) {
      result.begin_slots[s].push_back(result.slots);
      all.end_step(s);
      result.peak_stash[s] = std::max(result.peak_stash[s], all.stash(s));
    }
    ++result.slots;
  }
  return result;
}

}  // namespace tandem
