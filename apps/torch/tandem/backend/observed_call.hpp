#pragma once

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "flight_recorder.hpp"

/// What a user sees of a call in profiles and in dumps of the flight recorder.
namespace tandem::torch_backend {

/// A call's names in profiles and in dumps: those of ProcessGroupNCCL, the only ones that tools
/// know.
struct call_names {
  const char* profiled = "";
  const char* dumped = "";
};

inline call_names names_of(OpType what, std::string_view title) {
  switch (what) {
    case OpType::BROADCAST:
      return {"broadcast", "broadcast"};
    case OpType::ALLREDUCE:
      return {"allreduce", "all_reduce"};
    case OpType::_ALLREDUCE_SPARSE:
      return {"allreduce_sparse", "all_reduce"};
    case OpType::ALLREDUCE_COALESCED:
      return {"allreduce_coalesced", "allreduce_coalesced"};
    case OpType::REDUCE:
      return {"reduce", "reduce"};
    case OpType::ALLGATHER:
      return {"all_gather", "all_gather"};
    case OpType::_ALLGATHER_BASE:
      return {"_allgather_base", "_all_gather_base"};
    case OpType::ALLGATHER_COALESCED:
      return {"allgather_coalesced", "ALLGATHER_coalesced"};
    case OpType::GATHER:
      return {"gather", "gather"};
    case OpType::SCATTER:
      return {"scatter", "scatter"};
    case OpType::REDUCE_SCATTER:
      return {"reduce_scatter", "reduce_scatter"};
    case OpType::_REDUCE_SCATTER_BASE:
      return {"_reduce_scatter_base", "_reduce_scatter_base"};
    case OpType::ALLTOALL_BASE:
    case OpType::ALLTOALL:
      return {"all_to_all", "all_to_all"};
    case OpType::SEND:
      return {"send", "send"};
    case OpType::RECV:
    case OpType::RECVANYSOURCE:
      return {"recv", "recv"};
    case OpType::BARRIER:
      return {"barrier", "all_reduce_barrier"};
    default:
      if (title == "all_gather")
        return {"allgather_into_tensor_coalesced", "all_gather_into_tensor_coalesced"};
      if (title == "reduce_scatter")
        return {"reduce_scatter_tensor_coalesced", "reduce_scatter_tensor_coalesced"};
      return {"coalesced", "coalesced"};
  }
}

/// What a call's tensors do not say.
struct call_facts {
  std::int64_t peer = -1;  ///< the root, or the other rank of a message
  const std::vector<std::int64_t>* input_splits = nullptr;
  const std::vector<std::int64_t>* output_splits = nullptr;
};

inline bool is_profiled() {
  return at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value();
}

/// What `record_param_comms` says.
struct profiled_call {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::int64_t input_elements = 0;
  std::int64_t output_elements = 0;
  std::vector<std::int64_t> input_splits;
  std::vector<std::int64_t> output_splits;
  std::string name;
  int rank = 0;
  std::int64_t seq = 0;
  bool is_message = false;
};

inline std::int64_t elements_of(const tensors& all) {
  std::int64_t sum = 0;
  for (const Tensor& t : all) sum += t.defined() ? t.numel() : 0;
  return sum;
}

class observed_call;

/// While it lives, a profile's event is open. If it ends by an exception, the flight recorder is
/// dumped.
class observed_scope {
 public:
  observed_scope(const observed_call& of, const profiled_call* shown, bool is_wait);
  observed_scope(const observed_scope&) = delete;
  observed_scope& operator=(const observed_scope&) = delete;
  ~observed_scope();

 private:
  void show(const observed_group& group, const profiled_call& call);

  const observed_call& of_;
  const bool is_wait_;
  const int exceptions_ = std::uncaught_exceptions();
  std::optional<c10::DebugInfoGuard> info_;
  std::optional<at::RecordFunction> event_;
};

/// A call from its arguments to its end. Part of its handle.
class observed_call {
 public:
  void describe(std::shared_ptr<observed_group> group, OpType what, const char* title,
                const tensors& inputs, const tensors& outputs, const call_facts& facts) {
    if (is_profiled()) {
      profiled_ = std::make_unique<profiled_call>();
      profiled_->inputs = inputs;
      profiled_->outputs = outputs;
      if (facts.input_splits != nullptr) profiled_->input_splits = *facts.input_splits;
      if (facts.output_splits != nullptr) profiled_->output_splits = *facts.output_splits;
      profiled_->name = names_of(what, title).profiled;
      if (!profiled_->input_splits.empty() || !profiled_->output_splits.empty())
        profiled_->name = "all_to_allv";
      if (what == OpType::ALLTOALL) {
        for (const Tensor& t : inputs) profiled_->input_splits.push_back(elements_of({t}));
        for (const Tensor& t : outputs) profiled_->output_splits.push_back(elements_of({t}));
      }
      const auto size = static_cast<std::int64_t>(group->ranks.size());
      profiled_->input_elements = elements_of(inputs);
      profiled_->output_elements = elements_of(outputs);
      // Of all ranks, also where this one is not the root.
      if (what == OpType::GATHER) profiled_->output_elements = profiled_->input_elements * size;
      if (what == OpType::SCATTER) profiled_->input_elements = profiled_->output_elements * size;
      profiled_->rank = facts.peer >= 0 ? static_cast<int>(facts.peer) : group->rank;
    } else if (!flight_recorder::all().is_on()) {
      return;
    }
    call_.name = names_of(what, title).dumped;
    call_.is_send = what == OpType::SEND;
    call_.is_message = call_.is_send || what == OpType::RECV || what == OpType::RECVANYSOURCE;
    call_.peer = facts.peer;
    group_ = std::move(group);
    if (flight_recorder::all().is_on()) shape(what, inputs, outputs);
  }

  /// Before each of its operations is started.
  observed_scope begin(std::int64_t timeout_ms) {
    if (group_ && !has_begun_) {
      has_begun_ = true;
      number();
      call_.timeout_ms = timeout_ms;
      if (profiled_) {
        profiled_->seq = seq_;
        profiled_->is_message = call_.is_message;
      }
      is_message_ = call_.is_message;
      if (flight_recorder::all().is_on()) {
        call_.group = group_;
        id_ = flight_recorder::all().add(std::move(call_));
      }
    }
    return observed_scope(*this, std::exchange(profiled_, nullptr).get(), false);
  }
  /// The end of a batch is an entry of its own.
  void begin_batch_end(std::shared_ptr<observed_group> group) {
    group->is_batch = false;
    if (!group->batch_has_messages && !group->batch_has_collectives) return;
    call_.name = "coalesced";
    call_.is_message = group->batch_has_messages;
    group->is_batch = true;
    group_ = std::move(group);
    (void)begin(0);
    started(nullptr);
    group_->is_batch = false;
  }
  void started(tandem_op* op) {
    if (id_) flight_recorder::all().started(*id_, op);
  }
  bool keep() { return id_ && flight_recorder::all().keep(*id_); }
  void forget() {
    if (id_) flight_recorder::all().forget(*id_);
  }
  void end(bool is_success, int source = -1) {
    has_failed_ = !is_success;
    if (id_) flight_recorder::all().end(*id_, is_success, source);
  }
  observed_scope waiting() const {
    if (!group_ || !is_profiled()) return observed_scope(*this, nullptr, true);
    profiled_call wait;
    wait.name = "wait";
    wait.rank = group_->rank;
    wait.seq = seq_;
    wait.is_message = is_message_;
    return observed_scope(*this, &wait, true);
  }
  bool has_failed() const noexcept { return has_failed_; }
  const std::shared_ptr<observed_group>& group() const noexcept { return group_; }

 private:
  /// Calls of one batch have one number.
  void number() {
    observed_group& group = *group_;
    bool& is_counted = call_.is_message ? group.batch_has_messages : group.batch_has_collectives;
    if (!group.is_batch || !is_counted) ++(call_.is_message ? group.messages : group.collectives);
    if (group.is_batch) is_counted = true;
    call_.collective_seq = group.collectives;
    call_.message_seq = group.messages;
    call_.call_seq = ++group.calls;
    seq_ = call_.is_message ? call_.message_seq : call_.collective_seq;
  }

  static void add_all(call_shape& to, const tensors& all) {
    for (const Tensor& t : all) {
      if (t.defined()) to.add(t.sizes(), t.scalar_type());
    }
  }
  /// A list with one tensor for each rank as the one tensor that NCCL would make of it.
  /// @returns whether they are equal
  static bool add_joined(call_shape& to, const tensors& all) {
    const bool is_equal = std::all_of(all.begin(), all.end(), [&](const Tensor& t) {
      return t.defined() && all.front().defined() && t.sizes() == all.front().sizes();
    });
    if (all.empty() || !all.front().defined()) {
      to.add({0}, at::kFloat);
    } else if (is_equal) {
      c10::SmallVector<std::int64_t, 5> sizes{static_cast<std::int64_t>(all.size())};
      sizes.append(all.front().sizes().begin(), all.front().sizes().end());
      to.add(sizes, all.front().scalar_type());
    } else {
      to.add({elements_of(all)}, all.front().scalar_type());
    }
    return is_equal;
  }
  void shape(OpType what, const tensors& inputs, const tensors& outputs) {
    const bool has_input_list =
        what == OpType::SCATTER || what == OpType::REDUCE_SCATTER || what == OpType::ALLTOALL;
    const bool has_output_list =
        what == OpType::GATHER || what == OpType::ALLGATHER || what == OpType::ALLTOALL;
    if (what == OpType::BARRIER) {
      call_.inputs.add({1}, at::kFloat);
      call_.outputs.add({1}, at::kFloat);
      return;
    }
    bool is_equal = true;
    if (has_input_list) {
      is_equal = add_joined(call_.inputs, inputs);
    } else {
      add_all(call_.inputs, inputs);
    }
    if (has_output_list) {
      is_equal = add_joined(call_.outputs, outputs) && is_equal;
    } else {
      add_all(call_.outputs, outputs);
    }
    // Blocks of several lengths are not the same on all ranks, which a reader of dumps would take
    // for a mistake; NCCL broadcasts or reduces each of them.
    if (!is_equal && what == OpType::ALLGATHER) {
      call_.name = "_broadcast_oop";
      call_.inputs = call_.outputs;
    } else if (!is_equal && what == OpType::REDUCE_SCATTER) {
      call_.name = "_reduce_oop";
      call_.outputs = call_.inputs;
    }
  }

  std::shared_ptr<observed_group> group_;  ///< null: not observed
  recorded_call call_;                     ///< until it begins
  std::unique_ptr<profiled_call> profiled_;
  bool has_begun_ = false;
  bool has_failed_ = false;
  bool is_message_ = false;
  std::int64_t seq_ = 0;
  std::optional<std::size_t> id_;  ///< in the flight recorder
};

inline observed_scope::observed_scope(const observed_call& of, const profiled_call* shown,
                                      bool is_wait)
    : of_(of), is_wait_(is_wait) {
  if (shown != nullptr) show(*of.group(), *shown);
}

inline observed_scope::~observed_scope() {
  if (std::uncaught_exceptions() == exceptions_) return;
  flight_recorder::all().dump_after(is_wait_ && !of_.has_failed() ? dump_reason::expired_wait
                                                                  : dump_reason::failure);
}

/// RECORD_PARAM_COMMS_DATA, which costs a microsecond even if nobody profiles.
inline void observed_scope::show(const observed_group& group, const profiled_call& call) {
  const Tensor* typed = nullptr;
  for (const Tensor& t : call.inputs.empty() ? call.outputs : call.inputs) {
    if (typed == nullptr && t.defined()) typed = &t;
  }
  const auto names = std::make_tuple(group.name, group.description);
  const auto first = static_cast<int>(group.ranks.front());
  const auto stride = static_cast<int>(group.stride());
  const auto size = static_cast<int>(group.ranks.size());
  info_.emplace(c10::DebugInfoKind::PARAM_COMMS_INFO,
                std::make_shared<torch::ParamCommsDebugInfo>(
                    names, call.rank, std::string(call.name), call.input_elements,
                    call.output_elements, typed == nullptr ? at::kByte : typed->scalar_type(),
                    call.input_splits, call.output_splits, first, stride, size));
  event_.emplace(at::RecordScope::FUNCTION);
  if (!event_->isActive()) return;
  if (!event_->needsInputs()) return event_->before(at::kParamCommsCallName);
  std::vector<c10::IValue> arguments;
  if (call.name != "wait" && call.name != "barrier") arguments.emplace_back(call.inputs);
  arguments.emplace_back(std::make_tuple(call.seq, call.is_message));
  arguments.emplace_back(names);
  arguments.emplace_back(call.rank);
  arguments.emplace_back(call.name);
  arguments.emplace_back(call.input_splits);
  arguments.emplace_back(call.output_splits);
  arguments.emplace_back(first);
  arguments.emplace_back(stride);
  arguments.emplace_back(size);
  event_->before(at::kParamCommsCallName,
                 c10::ArrayRef<const c10::IValue>(arguments.data(), arguments.size()));
  if (event_->needsOutputs())
    event_->setOutputs(std::vector<c10::IValue>(1, c10::IValue(call.outputs)));
}

}  // namespace tandem::torch_backend
