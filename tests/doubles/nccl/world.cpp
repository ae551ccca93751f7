#include "doubles/nccl/world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace tandem::test::nccl {
namespace {

std::atomic<world*> in_force{nullptr};

/// Never destroyed: users may keep the table and call it after the double is gone.
detail::nccl& functions() noexcept {
  static detail::nccl table{};
  return table;
}

/// The name of the threads on which the library starts.
bool is_any_starting() {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "comm");
    std::string name;
    std::getline(file, name);
    if (name == "tandem-start") return true;
  }
  return false;
}

}  // namespace

bool shared_call::all_arrived() const {
  return std::ranges::all_of(sides, [](const auto& each) { return each.has_value(); });
}

bool shared_call::all_here() const {
  return std::ranges::all_of(
      sides, [](const auto& each) { return each && each->is_here && !each->by->aborted; });
}

group_state& groups_of_this_thread() noexcept {
  thread_local group_state own;
  return own;
}

world::world(cuda_double&) {
  fill_life(functions());
  fill_calls(functions());
  if (in_force.exchange(this) != nullptr) ADD_FAILURE() << "another double is in force";
  detail::replace_nccl(&functions());
}

void world::lack_blocks() {
  functions().all_to_all = nullptr;
  functions().gather = functions().scatter = nullptr;
}

void world::end_initializations() {
  {
    const cuda::world::lock held(cuda::world::now()->mutex);
    is_ending = true;
  }
  arrivals.notify_all();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (is_any_starting()) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "NCCL double: an initialization does not end";
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

world::~world() {
  detail::replace_nccl(nullptr);
  in_force.store(nullptr);
}

world* world::now() noexcept {
  return in_force.load();
}

nc::result world::injected(const char* function) {
  ++counts[function];
  for (auto each = faults.begin(); each != faults.end(); ++each) {
    if (each->function != function || --each->at_call > 0) continue;
    const nc::result with = each->with;
    faults.erase(each);
    return with;
  }
  return nc::success;
}

std::shared_ptr<end> world::find(nc::comm which) const {
  const auto found = ends.find(which);
  return found == ends.end() ? nullptr : found->second;
}

/// Collectives match by their order on each rank, messages by their order in each pair.
std::shared_ptr<shared_call> world::match(cuda::world& in, const posted& one) {
  end& by = *one.own_part.by;
  const auto rank = static_cast<std::size_t>(by.rank);
  std::shared_ptr<shared_call> at;
  std::size_t as = rank;
  const auto join = [&](auto& among, const auto& key, std::size_t parts) {
    std::shared_ptr<shared_call>& found = among[key];
    if (!found) found = std::make_shared<shared_call>(one.parameters, parts);
    at = found;
    if (is_mismatch_hanging && at->parameters != one.parameters) {
      at = std::make_shared<shared_call>(one.parameters, parts);
      at->sides[as] = one.own_part;
      return;
    }
    at->sides[as] = one.own_part;
    if (at->all_arrived()) among.erase(key);
  };
  if (one.parameters.what == kind::message) {
    as = one.sends ? 0 : 1;
    const std::size_t from = one.sends ? rank : one.to, to = one.sends ? one.to : rank;
    const std::size_t before = by.messages[{from, to, as}]++;
    join(by.of->messages, std::array{from, to, before}, 2);
  } else {
    join(by.of->collectives, by.collectives++, static_cast<std::size_t>(by.of->size));
  }
  if (at->parameters == one.parameters) return at;
  in.misuse(invalid_usage, "NCCL: ranks make different calls");
  return nullptr;
}

nc::result world::start(cuda::world& in, const std::vector<posted>& all) {
  struct started {
    std::shared_ptr<shared_call> at;
    std::shared_ptr<end> by;
  };
  std::map<cu::stream, std::vector<started>> on;
  for (const posted& each : all) {
    const std::shared_ptr<shared_call> at = match(in, each);
    if (!at) return invalid_usage;
    on[each.on].push_back({at, each.own_part.by});
  }
  for (auto& [which, calls] : on) {
    cuda::device& device = in.devices[static_cast<std::size_t>(calls.front().by->device)];
    const std::shared_ptr<cuda::stream> where = in.stream_of(which, device);
    if (!where || where->device != device.ordinal) {
      in.misuse(invalid_argument, "NCCL: a stream that is destroyed, or another device's");
      return invalid_argument;
    }
    const auto is_ready = [calls = calls] {
      bool ready = true;
      for (const started& each : calls) {
        for (auto& part : each.at->sides) {
          if (part && part->by == each.by) part->is_here = true;
        }
      }
      for (const started& each : calls) {
        if (each.by->aborted) return true;
        ready = ready && (each.at->is_done || each.at->all_here());
      }
      return ready;
    };
    const auto run = [&in, calls = calls] {
      for (const started& each : calls) {
        if (each.by->aborted || std::exchange(each.at->is_done, true)) continue;
        execute(in, *each.at);
      }
    };
    in.queue(*where, {.what = "call of NCCL", .is_ready = is_ready, .run = run, .polls = true});
  }
  return nc::success;
}

}  // namespace tandem::test::nccl
