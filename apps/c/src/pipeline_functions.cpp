#include <fmt/format.h>
#include <tandem_pipelines.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <tandem/pipeline_schedule.hpp>

#include "status.hpp"

namespace tandem::c {
namespace {

/// The result of the last computation, for calls with the same arguments: callers ask for one rank
/// after another, and for the number of steps before the steps.
template <class Result>
class last_result {
 public:
  template <class Compute>
  std::shared_ptr<const Result> of(const pipeline_shape& shape, Compute compute) {
    std::shared_ptr<const entry> found = get();
    if (found == nullptr || found->shape != shape) {
      found = std::make_shared<const entry>(entry{shape, compute()});
      put(found);
    }
    return {found, &found->result};
  }

 private:
  struct entry {
    pipeline_shape shape;
    Result result;
  };

  // The lock is not held while something is computed or freed: a process that another thread forks
  // meanwhile could never take it again.
  std::shared_ptr<const entry> get() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return entry_;
  }
  void put(std::shared_ptr<const entry> made) {
    const std::lock_guard<std::mutex> lock(mutex_);
    entry_.swap(made);
  }

  std::mutex mutex_;
  std::shared_ptr<const entry> entry_;
};

last_result<pipeline_schedule> last_schedule;
last_result<schedule_check> last_check;

std::shared_ptr<const pipeline_schedule> schedule_of(const pipeline_shape& shape) {
  return last_schedule.of(shape, [&] { return make_schedule(shape); });
}

std::shared_ptr<const schedule_check> check_of(const pipeline_shape& shape) {
  return last_check.of(shape, [&] {
    const auto all = schedule_of(shape);
    std::vector<stage_cost> costs = shape.costs;
    if (costs.empty()) costs.resize(static_cast<std::size_t>(all->stages()));
    return check(*all, costs);
  });
}

/// A schedule with what simulates it.
struct planned {
  pipeline_shape shape;
  int chunks;
};

planned plan_of(const tandem_pipeline* given, const char* call) {
  require(given, call, "pipeline");
  require(given->kind, call, "pipeline->kind");
  planned made;
  made.shape.kind = find_pipeline_kind(given->kind);
  made.shape.ranks = given->ranks;
  made.shape.micro_batches = given->micro_batches;
  made.shape.chunks = given->chunks;
  made.chunks = given->chunks == 0 ? usual_chunks(made.shape.kind) : given->chunks;
  if (given->costs == nullptr) return made;
  if (given->cost_count % 3 != 0 || given->cost_count > 3 * std::size_t{max_pipeline_stages}) {
    throw error(errc::bad_input, fmt::format("{}: {} costs", call, given->cost_count),
                "give three for each stage");
  }
  for (std::size_t i = 0; i < given->cost_count; i += 3) {
    made.shape.costs.push_back({given->costs[i], given->costs[i + 1], given->costs[i + 2]});
  }
  return made;
}

void check_rank(const planned& plan, std::int32_t rank, const char* call) {
  if (rank >= 0 && rank < plan.shape.ranks) return;
  throw error(errc::bad_input,
              fmt::format("{}: there is no rank {} of {}", call, rank, plan.shape.ranks));
}

void copy_steps(const pipeline_steps& from, tandem_pipeline_step* steps, std::size_t* count) {
  const std::size_t places = *count;
  *count = from.size();
  if (steps == nullptr) return;
  if (places < from.size()) {
    throw error(errc::bad_input, fmt::format("tandem_pipeline_steps: {} steps, but only {} places",
                                             from.size(), places));
  }
  std::transform(from.begin(), from.end(), steps, [](const pipeline_step& step) {
    return tandem_pipeline_step{step.what, step.chunk, step.micro_batch};
  });
}

tandem_pipeline_prediction prediction_of(const planned& plan, std::int32_t rank) {
  const auto simulated = check_of(plan.shape);
  const auto r = static_cast<std::size_t>(rank);
  return {sizeof(tandem_pipeline_prediction),
          plan.chunks,
          simulated->peak_stash[r],
          simulated->peak_weights[r],
          simulated->slots,
          simulated->busy_slots[r],
          simulated->bubble(rank),
          simulated->bubble()};
}

}  // namespace
}  // namespace tandem::c

using namespace tandem::c;

tandem_status tandem_pipeline_steps(const tandem_pipeline* pipeline, int32_t rank,
                                    tandem_pipeline_step* steps, size_t* count,
                                    tandem_error* error) {
  return guarded(error, [&] {
    constexpr const char* call = "tandem_pipeline_steps";
    const planned plan = plan_of(pipeline, call);
    require(count, call, "count");
    check_rank(plan, rank, call);
    const auto all = schedule_of(plan.shape);
    copy_steps(all->ranks[static_cast<std::size_t>(rank)], steps, count);
  });
}

tandem_status tandem_pipeline_stage(const tandem_pipeline* pipeline, int32_t rank, int32_t chunk,
                                    int32_t* stage, tandem_error* error) {
  return guarded(error, [&] {
    constexpr const char* call = "tandem_pipeline_stage";
    const planned plan = plan_of(pipeline, call);
    require(stage, call, "stage");
    check_rank(plan, rank, call);
    if (chunk < 0 || chunk >= plan.chunks) {
      throw tandem::error(tandem::errc::bad_input,
                          fmt::format("{}: there is no chunk {} of {}", call, chunk, plan.chunks));
    }
    *stage =
        tandem::stage_of(tandem::placement_of(plan.shape.kind), {rank, chunk}, plan.shape.ranks);
  });
}

tandem_status tandem_pipeline_predict(const tandem_pipeline* pipeline, int32_t rank,
                                      tandem_pipeline_prediction* prediction, tandem_error* error) {
  return guarded(error, [&] {
    constexpr const char* call = "tandem_pipeline_predict";
    const planned plan = plan_of(pipeline, call);
    require(prediction, call, "prediction");
    check_rank(plan, rank, call);
    const tandem_pipeline_prediction made = prediction_of(plan, rank);
    const std::size_t bytes = std::min(prediction->struct_bytes, sizeof made);
    // struct_bytes, the first member, stays the caller's.
    constexpr std::size_t first = sizeof made.struct_bytes;
    if (bytes > first) {
      std::memcpy(reinterpret_cast<char*>(prediction) + first,
                  reinterpret_cast<const char*>(&made) + first, bytes - first);
    }
  });
}
