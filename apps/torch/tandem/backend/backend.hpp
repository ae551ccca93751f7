#pragma once

#include <ATen/ATen.h>
#include <tandem.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "job.hpp"
#include "tensors.hpp"
#include "versions.hpp"
#include "work.hpp"

namespace tandem::torch_backend {

/// The GPU of the first buffer in the memory of one, among the arguments of an operation.
inline std::optional<c10::Device> first_gpu() {
  return std::nullopt;
}
template <class First, class... Others>
std::optional<c10::Device> first_gpu(const First& first, const Others&... others) {
  if constexpr (std::is_same_v<First, tandem_buffer>) {
    if (first.kind != TANDEM_HOST)
      return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(first.device));
  }
  return first_gpu(others...);
}

/// How a call is made.
struct call_options {
  call_options(milliseconds limit, bool waits = false)
      : timeout(limit), waits_at_once(waits) {}  // NOLINT: not explicit

  milliseconds timeout;
  bool waits_at_once;  ///< the caller's stream may carry it out
};
template <class Options>
call_options options_of(const Options& of) {
  return {of.timeout, waits_at_once(of)};
}

using work_ptr = c10::intrusive_ptr<c10d::Work>;

class backend final : public c10d::Backend {
 public:
  /// All ranks of a job.
  /// @param name  of the back-end, as scripts and profiles see it
  backend(std::shared_ptr<job> of, milliseconds timeout, std::string name)
      : Backend(tandem_job_rank(of->get()), tandem_job_size(of->get())),
        job_(std::move(of)),
        comm_(tandem_job_world(job_->get())),
        timeout_(timeout),
        name_(std::move(name)) {}
  /// Some of them; owns `comm`.
  backend(std::shared_ptr<job> of, tandem_comm* comm, milliseconds timeout, std::string name)
      : Backend(tandem_comm_rank(comm), tandem_comm_size(comm)),
        job_(std::move(of)),
        comm_(comm),
        is_part_(true),
        timeout_(timeout),
        name_(std::move(name)) {}
  ~backend() override { leave(); }

  /// A group of these ranks of this one; null on other ranks.
  c10::intrusive_ptr<backend> create_group(const std::vector<int>& ranks, const std::string& name,
                                           milliseconds timeout) {
    if (std::find(ranks.begin(), ranks.end(), getRank()) == ranks.end()) return nullptr;
    const std::vector<std::int32_t> members(ranks.begin(), ranks.end());
    tandem_comm* made = nullptr;
    tandem_error error = TANDEM_ERROR_INIT;
    check(tandem_comm_create_group(comm(), members.data(), members.size(), name.c_str(), &made,
                                   &error),
          error);
    auto group = c10::make_intrusive<backend>(job_, made, timeout, name_);
    for (const int r : ranks) group->global_ranks_.push_back(global_rank(r));
    return group;
  }
  /// If they are not those of the job: its ranks, as ranks of the default group.
  void set_global_ranks(std::vector<std::int64_t> ranks) { global_ranks_ = std::move(ranks); }
  // Functions that are virtual, but not in every version since PyTorch 2.6, are not marked
  // `override`.
  void abort() {
    if (comm_ != nullptr)
      tandem_comm_abort(comm_, "torch.distributed has aborted the process group");
  }
  void shutdown() { leave(); }
  void leave() {
    if (is_part_ && comm_ != nullptr) tandem_comm_destroy(comm_);
    comm_ = nullptr;
    job_.reset();
  }
  bool is_in_job() const noexcept { return job_ != nullptr; }
  std::string describe() const {
    std::string text(256, '\0');
    tandem_comm_describe(comm(), text.data(), text.size());
    return text.c_str();
  }

  const std::string getBackendName() const override { return name_; }
  c10::intrusive_ptr<Options> getBackendOptions() {
    return c10::make_intrusive<Options>(name_, timeout_);
  }
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const { return true; }
  void setTimeout(milliseconds timeout) { timeout_ = timeout; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return calls_; }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>&,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& opts) {
    return create_group(ranks, group_name_of(*opts), opts->timeout);
  }
  void startCoalescing() override {
    coalesced_.emplace();
    observed()->begin_batch();
  }
  work_ptr endCoalescing() override;

  work_ptr broadcast(tensors& data, const c10d::BroadcastOptions& opts) override;
  work_ptr allreduce(tensors& data, const c10d::AllreduceOptions& opts) override;
  work_ptr allreduce_coalesced(tensors& data, const c10d::AllreduceCoalescedOptions& opts) override;
  work_ptr reduce(tensors& data, const c10d::ReduceOptions& opts) override;
  work_ptr allgather(std::vector<tensors>& outputs, tensors& inputs,
                     const c10d::AllgatherOptions& opts) override;
  work_ptr _allgather_base(Tensor& output, Tensor& input,
                           const c10d::AllgatherOptions& opts) override;
  work_ptr allgather_coalesced(std::vector<tensors>& outputs, tensors& inputs,
                               const c10d::AllgatherOptions& opts) override;
  work_ptr allgather_into_tensor_coalesced(tensors& outputs, tensors& inputs,
                                           const c10d::AllgatherOptions& opts) override;
  work_ptr gather(std::vector<tensors>& outputs, tensors& inputs,
                  const c10d::GatherOptions& opts) override;
  work_ptr scatter(tensors& outputs, std::vector<tensors>& inputs,
                   const c10d::ScatterOptions& opts) override;
  work_ptr reduce_scatter(tensors& outputs, std::vector<tensors>& inputs,
                          const c10d::ReduceScatterOptions& opts) override;
  work_ptr _reduce_scatter_base(Tensor& output, Tensor& input,
                                const c10d::ReduceScatterOptions& opts) override;
  work_ptr reduce_scatter_tensor_coalesced(tensors& outputs, tensors& inputs,
                                           const c10d::ReduceScatterOptions& opts) override;
  work_ptr alltoall_base(Tensor& output, Tensor& input, std::vector<std::int64_t>& output_splits,
                         std::vector<std::int64_t>& input_splits,
                         const c10d::AllToAllOptions& opts) override;
  work_ptr alltoall(tensors& outputs, tensors& inputs, const c10d::AllToAllOptions& opts) override;
  work_ptr send(tensors& data, int to, int tag) override;
  work_ptr recv(tensors& data, int from, int tag) override;
  work_ptr recvAnysource(tensors& data, int tag) override;
  work_ptr barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_for_all) override;

 private:
  tandem_comm* comm() const {
    TORCH_CHECK(comm_ != nullptr, "tandem: this process group was shut down");
    return comm_;
  }
  tandem_call call_for(milliseconds timeout) const {
    tandem_call call = TANDEM_CALL_INIT;
    const milliseconds used = timeout == c10d::kUnsetTimeout ? timeout_ : timeout;
    call.timeout_ms = std::max<std::int64_t>(used.count(), 1);
    return call;
  }
  c10::intrusive_ptr<work> make(OpType what, const char* title, const tensors& inputs,
                                tensors outputs, const call_facts& facts = {}) {
    ++calls_;
    const char* const shown = interned(name_ + ":" + title);
    auto made = c10::make_intrusive<work>(getRank(), what, shown, inputs, std::move(outputs));
    made->observed().describe(observed(), what, title, inputs, made->outputs(), facts);
    return made;
  }
  /// Once the group has its name.
  const std::shared_ptr<observed_group>& observed() {
    std::call_once(is_observed_, [this] {
      if (global_ranks_.empty()) {
        for (int r = 0; r < getSize(); ++r) global_ranks_.push_back(r);
      }
      observed_ =
          flight_recorder::all().add_group(getGroupUid(), getGroupDesc(), global_ranks_, getRank());
    });
    return observed_;
  }
  std::int64_t global_rank(int r) const {
    return global_ranks_.empty() ? r : global_ranks_[static_cast<std::size_t>(r)];
  }
  /// Starts an operation for `into`: `function` of tandem.h with these arguments, and the call's.
  template <class Function, class... Arguments>
  void start(work& into, const call_options& how, Function function, Arguments... arguments) {
    tandem_call call = call_for(how.timeout);
    if (const std::optional<c10::Device> gpu = first_gpu(arguments...)) {
      into.is_on(*gpu);
      gpu_ = gpu;
      if (coalesced_) coalesced_->defer(into, call);
      call.stream = native_handle_of(current_stream(*gpu));
      call.has_stream = 1;
      call.in_stream = how.waits_at_once && !coalesced_ ? 3 : 2;
    }
    const observed_scope scope = into.observed().begin(call.timeout_ms);
    tandem_op* op = nullptr;
    tandem_error error = TANDEM_ERROR_INIT;
    check(function(comm(), arguments..., &call, &op, &error), error);
    into.add(op);
  }
  /// What is returned to the caller; part of a batch between startCoalescing and endCoalescing.
  work_ptr give(c10::intrusive_ptr<work> made) {
    if (coalesced_) coalesced_->parts.push_back(made);
    return made;
  }
  std::size_t ranks() const { return static_cast<std::size_t>(getSize()); }
  void check_list(const char* call, const tensors& all) const;

  work_ptr receive(OpType what, const char* title, tensors& data, int from, int tag);

  void start_all_reduce(work& into, const Tensor& data, const c10d::ReduceOp& op,
                        const call_options& options);
  void start_all_gather(work& into, const tensors& outputs, const Tensor& input,
                        const call_options& options);
  void start_all_gather_base(work& into, const Tensor& output, const Tensor& input,
                             const call_options& options);
  void start_reduce_scatter_base(work& into, const Tensor& output, const Tensor& input,
                                 const c10d::ReduceOp& op, const call_options& options);

  std::shared_ptr<job> job_;
  tandem_comm* comm_;
  const bool is_part_ = false;
  milliseconds timeout_;
  const std::string name_;  ///< "tandem", or that of a back-end whose place it has taken
  std::atomic<std::uint64_t> calls_{0};
  std::optional<c10::Device> gpu_;  ///< of its last tensors on one
  std::uint64_t barriers_ = 0;
  std::vector<std::int64_t> global_ranks_;  ///< empty: those of the job
  std::once_flag is_observed_;
  std::shared_ptr<observed_group> observed_;
  std::optional<batch> coalesced_;
};

/// The process's groups that joined a job of their own.
class groups {
 public:
  static groups& all() {
    static groups& only = *new groups;
    return only;
  }
  void add(const c10::intrusive_ptr<backend>& made, bool is_world) {
    const std::lock_guard lock(mutex_);
    std::erase_if(made_, [](const auto& each) { return each.expired(); });
    made_.emplace_back(made);
    if (is_world) world_ = c10::weak_intrusive_ptr<backend>(made);
  }
  /// The default group, while it is in a job; else null.
  c10::intrusive_ptr<backend> world() {
    const std::lock_guard lock(mutex_);
    c10::intrusive_ptr<backend> found = world_ ? world_->lock() : nullptr;
    return found && found->is_in_job() ? found : nullptr;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    for (const auto& each : made_) {
      if (const auto group = each.lock()) group->leave();
    }
  }

 private:
  std::mutex mutex_;
  std::vector<c10::weak_intrusive_ptr<backend>> made_;
  std::optional<c10::weak_intrusive_ptr<backend>> world_;
};

}  // namespace tandem::torch_backend
