#pragma once

#include <c10/util/ApproximateClock.h>
#include <c10/util/thread_name.h>
#include <tandem.h>
#include <torch/csrc/distributed/c10d/TraceUtils.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dump_signal.hpp"
#include "errors.hpp"
#include "recorded_call.hpp"

/// The last calls of the process, for the dumps that `torchfrtrace` reads. Not PyTorch's own class
/// (FlightRecorder.hpp), whose members are neither exported nor defined in a header that compiles
/// with what PyTorch installs; the format of its dumps, its variables, and what ProcessGroupNCCL
/// writes into them are followed.
namespace tandem::torch_backend {

enum class dump_reason { expired_wait, failure };

class flight_recorder {
 public:
  static flight_recorder& all() {
    static flight_recorder& only = *new flight_recorder;
    return only;
  }
  bool is_on() const noexcept { return max_entries_ > 0; }

  std::shared_ptr<observed_group> add_group(std::string name, std::string description,
                                            std::vector<std::int64_t> ranks, int rank) {
    auto made = std::make_shared<observed_group>();
    made->name = std::move(name);
    made->description = std::move(description);
    made->ranks = std::move(ranks);
    made->rank = rank;
    const std::lock_guard lock(mutex_);
    made->id = groups_made_++;
    std::erase_if(groups_, [&](const auto& each) {
      const auto other = each.lock();
      if (other && other->name == made->name) other->is_replaced = true;
      return !other || other->is_replaced;
    });
    groups_.push_back(made);
    global_rank_ = made->ranks[static_cast<std::size_t>(rank)];
    dumped_ = {};
    return made;
  }

  /// @returns the call's number, with which it is completed
  std::size_t add(recorded_call&& call) {
    static thread_local const std::string thread_name = c10::getThreadName();
    // Not under the lock, which threads take that hold Python's.
    auto frames = has_frames_ ? torch::CapturedTraceback::gather(true, true, false) : nullptr;
    const std::lock_guard lock(mutex_);
    const std::size_t id = next_++;
    if (entries_.size() < max_entries_) entries_.emplace_back();
    entry& made = entries_[id % max_entries_];
    drop(made);
    made = entry{id,          std::move(call),
                 {},          c10::getTime(),
                 {},          {},
                 false,       std::this_thread::get_id(),
                 thread_name, std::move(frames)};
    return id;
  }
  /// The operation, if it is not null, is one of the call's until `forget`.
  void started(std::size_t id, tandem_op* op) {
    const std::lock_guard lock(mutex_);
    if (entry* const found = find(id)) {
      if (op != nullptr) found->ops.push_back(op);
      if (!found->started_ns) found->started_ns = c10::getTime();
    }
  }
  /// Takes the call's operations over: they are complete when streams have reached their end, which
  /// nobody waits for. False: the entry is gone.
  bool keep(std::size_t id) {
    const std::lock_guard lock(mutex_);
    entry* const found = find(id);
    if (found == nullptr) return false;
    found->owns_ops = true;
    look(*found);
    return true;
  }
  void forget(std::size_t id) {
    const std::lock_guard lock(mutex_);
    if (entry* const found = find(id)) {
      look(*found);
      found->ops.clear();
    }
  }
  /// @param source  the rank that has sent the message, if it was not known
  void end(std::size_t id, bool is_success, int source) {
    const std::lock_guard lock(mutex_);
    entry* const found = find(id);
    if (found == nullptr) return;
    found->is_over = true;
    if (source >= 0 && found->call.is_message && found->call.peer < 0) found->call.peer = source;
    if (is_success && !found->completed_ns) complete(*found);
  }

  /// Pickled, as FlightRecorder::dump of PyTorch.
  std::string dump();
  /// A dump into that file; "": `<prefix><rank>`, as ProcessGroupNCCL names it.
  /// @returns the file
  std::string write(const std::string& path);

  /// Where the variables of ProcessGroupNCCL ask for it: once for each reason. After a failure the
  /// other ranks are notified, and dump, too.
  void dump_after(dump_reason why) noexcept;
  /// Dumps when another rank of the job with that store has failed. Until it is destroyed.
  std::shared_ptr<dump_signal> join(c10::intrusive_ptr<c10d::Store> store) {
    if (!is_on() || !asks_for_dumps()) return nullptr;
    auto made = std::make_shared<dump_signal>(std::move(store), signal_interval(),
                                              [this] { dump_once(dump_reason::failure); });
    const std::lock_guard lock(mutex_);
    std::erase_if(signals_, [](const auto& each) { return each.expired(); });
    signals_.push_back(made);
    return made;
  }

  static std::optional<std::string> variable(const char* name) {
    const char* const text = std::getenv(name);
    return text == nullptr ? std::nullopt : std::optional<std::string>(text);
  }
  static bool is_yes(const std::optional<std::string>& text) {
    return text && (*text == "1" || *text == "y" || *text == "Y" || *text == "true");
  }
  std::string default_path() {
    const std::lock_guard lock(mutex_);
    return prefix() + std::to_string(global_rank_);
  }

 private:
  struct entry {
    std::size_t id = 0;
    recorded_call call;
    c10::SmallVector<tandem_op*, 1> ops;
    c10::time_t created_ns = 0;
    std::optional<c10::time_t> started_ns;
    std::optional<c10::time_t> completed_ns;
    bool is_over = false;
    std::thread::id thread;
    std::string thread_name;
    std::shared_ptr<torch::CapturedTraceback> frames;
    bool owns_ops = false;
  };
  static void drop(entry& of) {
    if (of.owns_ops) {
      for (tandem_op* op : of.ops) tandem_op_release(op);
    }
    of.ops.clear();
  }

  static std::size_t most_entries() {
    for (const char* name : {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}) {
      if (const auto text = variable(name)) {
        return static_cast<std::size_t>(std::max(std::atoll(text->c_str()), 0LL));
      }
    }
    return 2000;  // PyTorch's, since 2.9
  }
  static std::string prefix() {
    for (const char* name : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}) {
      if (const auto text = variable(name); text && !text->empty()) return *text;
    }
    const auto cache = variable("XDG_CACHE_HOME");
    return cache.value_or(variable("HOME").value_or("") + "/.cache") +
           "/torch/comm_lib_trace_rank_";
  }
  static milliseconds signal_interval() {
    const auto text = variable("TORCH_NCCL_COORD_CHECK_MILSEC");
    return milliseconds(text ? std::max(std::atoll(text->c_str()), 1LL) : 1000);
  }
  /// @returns whether it has dumped
  bool dump_once(dump_reason why) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(dumped_[static_cast<std::size_t>(why)], true)) return false;
    }
    write("");
    return true;
  }
  static bool asks_for_dumps() {
    const auto asked = variable("TORCH_NCCL_DUMP_ON_TIMEOUT");
    if (asked) return is_yes(asked);
    return variable("TORCH_FR_DUMP_TEMP_FILE") || variable("TORCH_NCCL_DEBUG_INFO_TEMP_FILE");
  }

  entry* find(std::size_t id) {
    if (id >= next_ || next_ - id > entries_.size()) return nullptr;
    return &entries_[id % max_entries_];
  }
  static void complete(entry& of) {
    of.completed_ns = c10::getTime();
    if (!of.started_ns) of.started_ns = of.completed_ns;
    if (of.call.is_message) return;
    auto& last = of.call.group->completed;
    last = std::max<std::int64_t>(last, of.call.collective_seq);
  }
  /// Whether its operations are complete, though nobody has waited for them.
  static void look(entry& of) {
    if (of.completed_ns || of.ops.empty()) return;
    for (tandem_op* op : of.ops) {
      if (tandem_op_test(op, nullptr) != TANDEM_OK) return;
    }
    complete(of);
    if (of.owns_ops) drop(of);
  }
  static c10::Dict<c10::IValue, c10::IValue> described(const entry& of);

  const std::size_t max_entries_ = most_entries();
  /// Each call would take Python's global lock for them.
  const bool has_frames_ = is_yes(variable("TORCH_INCLUDE_STACK_TRACE"));
  std::mutex mutex_;
  std::vector<entry> entries_;  ///< a ring: the call with number n is at n % max_entries_
  std::size_t next_ = 0;
  std::vector<std::weak_ptr<observed_group>> groups_;  ///< as long as they or their calls are there
  std::size_t groups_made_ = 0;
  std::int64_t global_rank_ = 0;
  std::vector<std::weak_ptr<dump_signal>> signals_;
  std::array<bool, 2> dumped_{};  ///< by dump_reason, since the last group was made
};

inline c10::List<c10::IValue> sizes_of(const call_shape& shape) {
  auto all = c10d::new_list();
  const std::int64_t* size = shape.sizes.begin();
  for (const std::size_t dimensions : shape.dimensions) {
    auto one = c10d::new_list();
    for (std::size_t i = 0; i < dimensions; ++i) one.push_back(*size++);
    all.push_back(one);
  }
  return all;
}

inline c10::List<c10::IValue> types_of(const call_shape& shape) {
  auto all = c10d::new_list();
  for (const at::ScalarType type : shape.types) all.push_back(std::string(c10::toString(type)));
  return all;
}

inline c10::Dict<c10::IValue, c10::IValue> flight_recorder::described(const entry& of) {
  const recorded_call& call = of.call;
  const observed_group& group = *call.group;
  std::string name = std::string("nccl:") + call.name;  // no other name is read
  if (call.is_message && std::string_view(call.name) != "coalesced") {
    name += c10::str(" ", group.rank, call.is_send ? "->" : "<-", call.peer);
  }
  const auto time = [](const std::optional<c10::time_t>& ns) {
    return ns ? c10::IValue(static_cast<std::int64_t>(*ns)) : c10::IValue();
  };
  auto made = c10d::new_dict();
  made.insert("record_id", static_cast<std::int64_t>(of.id));
  made.insert("pg_id", static_cast<std::int64_t>(group.id));
  made.insert("process_group", std::make_tuple(group.name, group.description));
  made.insert("collective_seq_id", call.collective_seq);
  made.insert("p2p_seq_id", call.message_seq);
  made.insert("op_id", call.call_seq);
  made.insert("is_p2p", call.is_message);
  made.insert("profiling_name", name);
  made.insert("input_sizes", sizes_of(call.inputs));
  made.insert("input_dtypes", types_of(call.inputs));
  made.insert("output_sizes", sizes_of(call.outputs));
  made.insert("output_dtypes", types_of(call.outputs));
  made.insert("state", of.completed_ns ? "completed" : of.started_ns ? "started" : "scheduled");
  made.insert("time_created_ns", static_cast<std::int64_t>(of.created_ns));
  made.insert("time_discovered_started_ns", time(of.started_ns));
  made.insert("time_discovered_completed_ns", time(of.completed_ns));
  made.insert("timeout_ms", call.timeout_ms);
  made.insert("retired", of.is_over);
  made.insert("thread_id", c10::str(of.thread));
  made.insert("thread_name", of.thread_name);
  return made;
}

inline std::string flight_recorder::dump() {
  auto result = c10d::new_dict();
  auto groups = c10d::new_dict();
  auto status = c10d::new_dict();
  auto entries = c10d::new_list();
  std::vector<std::shared_ptr<torch::CapturedTraceback>> frames;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& listed : groups_) {
      const auto each = listed.lock();
      if (!each) continue;
      auto group = c10d::new_dict();
      group.insert("name", each->name);
      group.insert("desc", each->description);
      group.insert("ranks", c10::str("[", c10::Join(", ", each->ranks), "]"));
      groups.insert(each->name, group);
      auto counts = c10d::new_dict();
      counts.insert("last_enqueued_collective", each->collectives.load());
      counts.insert("last_started_collective", each->collectives.load());
      counts.insert("last_completed_collective", each->completed.load());
      status.insert(std::to_string(each->id), counts);
    }
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      entry& each = *find(next_ - entries_.size() + i);
      if (each.call.group->is_replaced) continue;
      look(each);
      entries.push_back(described(each));
      frames.push_back(each.frames);
    }
  }
  if (has_frames_) {  // not under the lock: takes Python's
    std::vector<torch::CapturedTraceback*> captured;
    for (const auto& each : frames) captured.push_back(each.get());
    const torch::SymbolizedTracebacks found = torch::symbolize(captured);
    for (std::size_t i = 0; i < captured.size(); ++i) {
      auto stack = c10d::new_list();
      for (const auto number : found.tracebacks[i]) {
        const auto& frame = found.all_frames[number];
        auto line = c10d::new_dict();
        line.insert("name", frame.funcname);
        line.insert("filename", frame.filename);
        line.insert("line", static_cast<std::int64_t>(frame.lineno));
        stack.push_back(line);
      }
      entries.get(i).toGenericDict().insert("frames", stack);
    }
  }
  result.insert("version", "2.10");
  result.insert("comm_lib_version", std::string("tandem ") + tandem_version());
  result.insert("pg_config", groups);
  result.insert("pg_status", status);
  result.insert("entries", entries);
  return c10d::pickle_str(result);
}

inline std::string flight_recorder::write(const std::string& path) {
  const std::string used = path.empty() ? default_path() : path;
  if (path.empty()) {
    std::error_code ignored;  // the file cannot be written, then
    std::filesystem::create_directories(std::filesystem::path(used).parent_path(), ignored);
  }
  std::ofstream file(used, std::ios::binary);
  file << dump();
  file.close();
  TORCH_CHECK(file, "tandem: ", used, " cannot be written");
  return used;
}

inline void flight_recorder::dump_after(dump_reason why) noexcept {
  if (!is_on() || !asks_for_dumps()) return;
  try {
    if (!dump_once(why) || why != dump_reason::failure) return;
    std::vector<std::shared_ptr<dump_signal>> jobs;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& each : signals_) jobs.push_back(each.lock());
    }
    for (const auto& each : jobs) {
      if (each) each->send();
    }
    // The store may be gone with this process, before the others have looked.
    std::this_thread::sleep_for(signal_interval() + milliseconds(200));
  } catch (const std::exception& failed) {
    LOG(ERROR) << "tandem: the flight recorder's dump failed: " << failed.what();
  }
}

}  // namespace tandem::torch_backend
