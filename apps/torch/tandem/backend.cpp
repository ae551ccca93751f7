// The back-end "tandem" of torch.distributed: a c10d::Backend over Tandem's C interface. Compiled where PyTorch is
// installed, by glue.py, since PyTorch's C++ interface differs from version to version; tandem.h does not.
#include <ATen/ATen.h>
#include <pybind11/chrono.h>
#include <tandem.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using at::Tensor;
using c10d::OpType;
using std::chrono::milliseconds;
using tensors = std::vector<Tensor>;

/// Tags from here on are those of monitored barriers.
constexpr int first_barrier_tag = 64512;
constexpr int barrier_tags = 1024;

[[noreturn]] void fail(const tandem_error& error) { C10_THROW_ERROR(DistBackendError, error.text); }

void check(tandem_status status, const tandem_error& error) {
  if (status != TANDEM_OK) fail(error);
}

std::exception_ptr exception_of(const tandem_error& error) {
  try {
    fail(error);
  } catch (...) {
    return std::current_exception();
  }
}

// ---- Tensors ----------------------------------------------------------------------------------

/// The type in which elements travel and are combined. bool is 0 or 1 in a byte.
tandem_type type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return TANDEM_FLOAT32;
    case at::kDouble: return TANDEM_FLOAT64;
    case at::kInt: return TANDEM_INT32;
    case at::kLong: return TANDEM_INT64;
    case at::kChar: return TANDEM_INT8;
    case at::kShort: return TANDEM_INT16;
    case at::kByte:
    case at::kBool: return TANDEM_UINT8;
    case at::kUInt16: return TANDEM_UINT16;
    case at::kUInt32: return TANDEM_UINT32;
    case at::kUInt64: return TANDEM_UINT64;
    case at::kHalf: return TANDEM_FLOAT16;
    case at::kBFloat16: return TANDEM_BFLOAT16;
    case at::kFloat8_e4m3fn: return TANDEM_FLOAT8_E4M3;
    case at::kFloat8_e5m2: return TANDEM_FLOAT8_E5M2;
    default: TORCH_CHECK_TYPE(false, "tandem: tensors of type ", type, " cannot be reduced");
  }
}

void check_tensor(const char* call, const Tensor& t) {
  TORCH_CHECK_VALUE(t.defined(), "tandem: ", call, ": a tensor is undefined");
  TORCH_CHECK_VALUE(t.layout() == at::kStrided, "tandem: ", call, ": the tensor's layout is ", t.layout(),
                    "; pass a dense tensor");
  TORCH_CHECK_VALUE(t.is_cpu(), "tandem: ", call, ": the tensor is on ", t.device(),
                    "; this group was made for tensors of the CPU");
}

const Tensor& only_one(const char* call, const tensors& all) {
  TORCH_CHECK_VALUE(all.size() == 1, "tandem: ", call, ": ", all.size(), " tensors, expected one");
  check_tensor(call, all.front());
  return all.front();
}

void check_same_type(const char* call, const Tensor& one, const Tensor& other) {
  TORCH_CHECK_VALUE(one.scalar_type() == other.scalar_type(), "tandem: ", call, ": tensors of types ",
                    one.scalar_type(), " and ", other.scalar_type());
}

/// A tensor of the same elements in consecutive memory, for reading.
Tensor dense(const Tensor& t) {
  return t.is_contiguous() && !t.is_conj() && !t.is_neg() ? t : t.resolve_conj().resolve_neg().contiguous();
}

/// The same to write to; `copy_back` is then to be called after the operation.
bool is_writable_in_place(const Tensor& t) { return t.is_contiguous() && !t.is_conj() && !t.is_neg(); }

tandem_buffer buffer_of(const Tensor& t) { return {t.data_ptr(), t.nbytes(), TANDEM_HOST, 0}; }

std::size_t bytes_of(std::int64_t elements, const Tensor& like) {
  return static_cast<std::size_t>(elements) * like.element_size();
}

/// Whether all tensors follow each other in memory, so that they are one buffer.
bool are_consecutive(const tensors& all) {
  const char* expected = static_cast<const char*>(all.front().data_ptr());
  for (const Tensor& t : all) {
    if (!is_writable_in_place(t) || t.data_ptr() != expected) return false;
    expected += t.nbytes();
  }
  return true;
}

bool are_equally_long(const tensors& all) {
  return std::all_of(all.begin(), all.end(), [&](const Tensor& t) { return t.numel() == all.front().numel(); });
}

std::vector<std::size_t> lengths_of(const tensors& all) {
  std::vector<std::size_t> bytes;
  for (const Tensor& t : all) bytes.push_back(t.nbytes());
  return bytes;
}

/// One buffer for a list of tensors: their own memory if they follow each other there.
Tensor joined_memory(const tensors& all) {
  const Tensor& first = all.front();
  std::int64_t elements = 0;
  for (const Tensor& t : all) elements += t.numel();
  if (are_consecutive(all)) {
    return at::from_blob(first.data_ptr(), {elements}, [keep = all](void*) {}, first.options());
  }
  return at::empty({elements}, first.options());
}

Tensor joined(const tensors& all) {
  const Tensor into = joined_memory(all);
  if (into.data_ptr() == all.front().data_ptr()) return into;
  std::int64_t at = 0;
  for (const Tensor& t : all) {
    into.narrow(0, at, t.numel()).copy_(t.reshape({-1}));
    at += t.numel();
  }
  return into;
}

void distribute(const Tensor& from, const tensors& all) {
  if (!all.empty() && from.data_ptr() == all.front().data_ptr() && are_consecutive(all)) return;
  std::int64_t at = 0;
  for (const Tensor& t : all) {
    t.copy_(from.narrow(0, at, t.numel()).view(t.sizes()));
    at += t.numel();
  }
}

/// How elements of a tensor are combined. Complex numbers are pairs of real ones; the sum of bools is "or", as in NCCL.
tandem_reduction reduction_of(const c10d::ReduceOp& op, const Tensor& like) {
  using ops = c10d::ReduceOp;
  const bool is_bool = like.scalar_type() == at::kBool;
  const bool is_complex = like.is_complex();
  const at::ScalarType type = is_complex ? c10::toRealValueType(like.scalar_type()) : like.scalar_type();
  tandem_reduction how{type_of(type), TANDEM_SUM, 1};
  switch (op.op_) {
    case ops::SUM: how.op = is_bool ? TANDEM_MAXIMUM : TANDEM_SUM; break;
    case ops::AVG:
      TORCH_CHECK_TYPE(!is_bool, "tandem: bool tensors have no average");
      how.op = TANDEM_AVERAGE;
      break;
    case ops::PRODUCT: how.op = is_bool ? TANDEM_MINIMUM : TANDEM_PRODUCT; break;
    case ops::MIN: how.op = TANDEM_MINIMUM; break;
    case ops::MAX: how.op = TANDEM_MAXIMUM; break;
    case ops::BAND: how.op = TANDEM_BAND; break;
    case ops::BOR: how.op = TANDEM_BOR; break;
    case ops::BXOR: how.op = TANDEM_BXOR; break;
    case ops::PREMUL_SUM: {
      const auto* scale = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
      TORCH_CHECK_VALUE(scale != nullptr, "tandem: PREMUL_SUM without a factor");
      how.op = TANDEM_PREMULTIPLIED_SUM;
      how.factor = scale->tensor_factor.defined() ? scale->tensor_factor.item<double>() : scale->double_factor;
      break;
    }
    default: TORCH_CHECK_VALUE(false, "tandem: unknown reduction ", static_cast<int>(op.op_));
  }
  const bool has_parts = how.op == TANDEM_SUM || how.op == TANDEM_AVERAGE || how.op == TANDEM_PREMULTIPLIED_SUM;
  TORCH_CHECK_TYPE(!is_complex || has_parts, "tandem: complex numbers have sums and averages only");
  return how;
}

// ---- Work -------------------------------------------------------------------------------------

/// Operations in progress, what is to be done after them, and the tensors that they use.
class work final : public c10d::Work {
 public:
  work(int rank, OpType what, const char* title, const tensors& inputs, tensors outputs)
      : Work(rank, what, title, inputs), title_(title), outputs_(std::move(outputs)) {}
  ~work() override;

  void keep(tensors used) { kept_.insert(kept_.end(), used.begin(), used.end()); }
  void keep(const Tensor& used) { kept_.push_back(used); }
  void add(tandem_op* op) { ops_.push_back(op); }
  void after(std::function<void()> what) { after_.push_back(std::move(what)); }
  /// Takes over what another work waits for.
  void add(c10::intrusive_ptr<work> part) { parts_.push_back(std::move(part)); }

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(milliseconds timeout = kNoTimeout) override;
  void synchronize() override {}
  void abort() override {
    for (tandem_op* op : ops_) tandem_op_cancel(op);
    for (const auto& part : parts_) part->abort();
  }
  std::vector<Tensor> result() override { return outputs_; }
  int sourceRank() const override { return source_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  struct abandoned;

  void complete();
  void watch();

  const std::string title_;
  const tensors outputs_;
  tensors kept_;
  std::vector<tandem_op*> ops_;
  std::vector<std::function<void()>> after_;
  std::vector<c10::intrusive_ptr<work>> parts_;
  std::mutex completion_;  // held while `after_` runs
  bool is_complete_ = false;
  int source_ = -1;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<std::size_t> watched_{0};
};

/// What operations still use when their handle is gone.
struct work::abandoned {
  tensors kept;
  std::atomic<std::size_t> left;
};

work::~work() {
  bool all_over = true;
  for (tandem_op* op : ops_) all_over = all_over && tandem_op_test(op, nullptr) != TANDEM_IN_PROGRESS;
  if (all_over) {
    for (tandem_op* op : ops_) tandem_op_release(op);
    return;
  }
  auto* const rest = new abandoned{std::move(kept_), {ops_.size()}};
  for (const Tensor& t : outputs_) rest->kept.push_back(t);
  for (tandem_op* op : ops_) {
    tandem_op_on_complete(
        op,
        [](void* context, tandem_op* over) {
          auto* const of = static_cast<abandoned*>(context);
          tandem_op_release(over);
          if (--of->left == 0) delete of;
        },
        rest);
  }
}

/// Once, when all operations are complete.
void work::complete() {
  const std::lock_guard lock(completion_);
  if (is_complete_) return;
  is_complete_ = true;
  std::exception_ptr failure;
  for (tandem_op* op : ops_) {
    tandem_error error = TANDEM_ERROR_INIT;
    if (tandem_op_test(op, &error) != TANDEM_OK && !failure) failure = exception_of(error);
    source_ = tandem_op_source(op);
  }
  for (const auto& part : parts_) {
    if (!failure) failure = part->exception();
  }
  if (!failure) {
    try {
      for (const auto& step : after_) step();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  after_.clear();
  kept_.clear();
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard future_lock(future_mutex_);
    finish(failure);
    future = future_;
  }
  if (!future) return;
  if (failure) {
    future->setErrorIfNeeded(failure);
  } else {
    future->markCompleted(c10::IValue(outputs_));
  }
}

bool work::isCompleted() {
  for (tandem_op* op : ops_) {
    if (tandem_op_test(op, nullptr) == TANDEM_IN_PROGRESS) return false;
  }
  for (const auto& part : parts_) {
    if (!part->isCompleted()) return false;
  }
  complete();
  return true;
}

bool work::isSuccess() const { return !exception(); }

std::exception_ptr work::exception() const {
  const std::lock_guard lock(mutex_);
  return exception_;
}

bool work::wait(milliseconds timeout) {
  const bool is_limited = timeout != kNoTimeout && timeout.count() > 0;
  const auto limit = std::chrono::steady_clock::now() + timeout;
  for (tandem_op* op : ops_) {
    const auto left = std::chrono::duration_cast<milliseconds>(limit - std::chrono::steady_clock::now());
    const std::int64_t most_ms = is_limited ? std::max<std::int64_t>(left.count(), 0) : -1;
    if (tandem_op_wait(op, most_ms, nullptr) == TANDEM_IN_PROGRESS) {
      C10_THROW_ERROR(DistBackendError, c10::str("tandem: ", title_, " is not complete after ", timeout.count(),
                                                 " ms: another rank has not joined it yet, or it takes longer"));
    }
  }
  for (const auto& part : parts_) part->wait(timeout);
  complete();
  if (const std::exception_ptr failure = exception()) std::rethrow_exception(failure);
  return true;
}

/// The object stays alive until the last operation is complete.
void work::watch() {
  const std::size_t count = ops_.size();
  if (count == 0) return complete();
  for (tandem_op* op : ops_) {
    tandem_op_on_complete(
        op,
        [](void* context, tandem_op*) {
          auto* const self = static_cast<work*>(context);
          if (++self->watched_ == self->ops_.size()) {
            self->complete();
            c10::intrusive_ptr<work>::reclaim(self);
          }
        },
        this);
  }
}

c10::intrusive_ptr<c10::ivalue::Future> work::getFuture() {
  const std::lock_guard lock(future_mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  bool is_over = false;
  std::exception_ptr failure;
  {
    const std::lock_guard state(mutex_);
    is_over = completed_;
    failure = exception_;
  }
  if (is_over) {
    if (failure) {
      future_->setError(failure);
    } else {
      future_->markCompleted(c10::IValue(outputs_));
    }
    return future_;
  }
  c10::intrusive_ptr<work>::unsafe_reclaim_from_nonowning(this).release();  // until `watch` is done
  watch();
  return future_;
}

// ---- Jobs and groups --------------------------------------------------------------------------

/// The caller's store of torch.distributed as Tandem's.
struct store_functions {
  static int set(void* context, const char* key, const void* value, std::size_t bytes) {
    try {
      const auto* const data = static_cast<const std::uint8_t*>(value);
      static_cast<c10d::Store*>(context)->set(key, std::vector<std::uint8_t>(data, data + bytes));
      return 0;
    } catch (const std::exception&) {
      return 1;
    }
  }
  static int get(void* context, const char* key, void* value, std::size_t* bytes, std::int64_t timeout_ms) {
    try {
      auto* const store = static_cast<c10d::Store*>(context);
      store->wait({key}, milliseconds(timeout_ms));
      const std::vector<std::uint8_t> found = store->get(key);
      if (found.size() <= *bytes) std::memcpy(value, found.data(), found.size());
      *bytes = found.size();
      return 0;
    } catch (const std::exception&) {
      return 1;
    }
  }
};

/// This process as a rank of a job; the last group that uses it leaves.
class job {
 public:
  job(c10d::Store& through, int rank, int size, milliseconds timeout, const std::string& name) {
    tandem_store store{sizeof(tandem_store), &through, store_functions::set, store_functions::get};
    tandem_job_options options = TANDEM_JOB_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.store = &store;
    options.name = name.c_str();
    options.meet_timeout_ms = timeout.count();
    options.operation_timeout_ms = timeout.count();
    tandem_error error = TANDEM_ERROR_INIT;
    check(tandem_job_create(&options, &job_, &error), error);
  }
  job(const job&) = delete;
  job& operator=(const job&) = delete;
  ~job() { tandem_job_destroy(job_); }

  tandem_job* get() const noexcept { return job_; }

 private:
  tandem_job* job_ = nullptr;
};

class backend final : public c10d::Backend {
 public:
  /// All ranks of a job.
  backend(std::shared_ptr<job> of, milliseconds timeout)
      : Backend(tandem_job_rank(of->get()), tandem_job_size(of->get())),
        job_(std::move(of)),
        comm_(tandem_job_world(job_->get())),
        timeout_(timeout) {}
  /// Some of them; owns `comm`.
  backend(std::shared_ptr<job> of, tandem_comm* comm, milliseconds timeout)
      : Backend(tandem_comm_rank(comm), tandem_comm_size(comm)),
        job_(std::move(of)),
        comm_(comm),
        is_part_(true),
        timeout_(timeout) {}
  ~backend() override { leave(); }

  /// A group of these ranks of this one; null on other ranks.
  c10::intrusive_ptr<backend> create_group(const std::vector<int>& ranks, const std::string& name,
                                           milliseconds timeout) {
    if (std::find(ranks.begin(), ranks.end(), getRank()) == ranks.end()) return nullptr;
    const std::vector<std::int32_t> members(ranks.begin(), ranks.end());
    tandem_comm* made = nullptr;
    tandem_error error = TANDEM_ERROR_INIT;
    check(tandem_comm_create_group(comm(), members.data(), members.size(), name.c_str(), &made, &error), error);
    return c10::make_intrusive<backend>(job_, made, timeout);
  }
  // Virtual since PyTorch 2.8.
  void abort() {
    if (comm_ != nullptr) tandem_comm_abort(comm_, "torch.distributed has aborted the process group");
  }
  void shutdown() { leave(); }
  void leave() {
    if (is_part_ && comm_ != nullptr) tandem_comm_destroy(comm_);
    comm_ = nullptr;
    job_.reset();
  }
  std::string describe() const {
    std::string text(256, '\0');
    tandem_comm_describe(comm(), text.data(), text.size());
    return text.c_str();
  }

  const std::string getBackendName() const override { return "tandem"; }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<Options>("tandem", timeout_);
  }
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(milliseconds timeout) override { timeout_ = timeout; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return calls_; }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>&, const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& opts) override {
    return create_group(ranks, opts->group_name, opts->timeout);
  }
  void startCoalescing() override { coalesced_.emplace(); }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;

  c10::intrusive_ptr<c10d::Work> broadcast(tensors& data, const c10d::BroadcastOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> allreduce(tensors& data, const c10d::AllreduceOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(tensors& data,
                                                     const c10d::AllreduceCoalescedOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> reduce(tensors& data, const c10d::ReduceOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<tensors>& outputs, tensors& inputs,
                                           const c10d::AllgatherOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(Tensor& output, Tensor& input,
                                                 const c10d::AllgatherOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<tensors>& outputs, tensors& inputs,
                                                     const c10d::AllgatherOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(tensors& outputs, tensors& inputs,
                                                                 const c10d::AllgatherOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<tensors>& outputs, tensors& inputs,
                                        const c10d::GatherOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> scatter(tensors& outputs, std::vector<tensors>& inputs,
                                         const c10d::ScatterOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(tensors& outputs, std::vector<tensors>& inputs,
                                                const c10d::ReduceScatterOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(Tensor& output, Tensor& input,
                                                      const c10d::ReduceScatterOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(tensors& outputs, tensors& inputs,
                                                                 const c10d::ReduceScatterOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(Tensor& output, Tensor& input, std::vector<std::int64_t>& output_splits,
                                               std::vector<std::int64_t>& input_splits,
                                               const c10d::AllToAllOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> alltoall(tensors& outputs, tensors& inputs,
                                          const c10d::AllToAllOptions& opts) override;
  c10::intrusive_ptr<c10d::Work> send(tensors& data, int to, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(tensors& data, int from, int tag) override;
  c10::intrusive_ptr<c10d::Work> recvAnysource(tensors& data, int tag) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_for_all) override;

 private:
  using started = tandem_status;

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
  c10::intrusive_ptr<work> make(OpType what, const char* title, const tensors& inputs, tensors outputs) {
    ++calls_;
    return c10::make_intrusive<work>(getRank(), what, title, inputs, std::move(outputs));
  }
  /// Starts an operation for `into`: `function` of tandem.h with these arguments, and the call's.
  template <class Function, class... Arguments>
  void start(work& into, milliseconds timeout, Function function, Arguments... arguments) {
    const tandem_call call = call_for(timeout);
    tandem_op* op = nullptr;
    tandem_error error = TANDEM_ERROR_INIT;
    check(function(comm(), arguments..., &call, &op, &error), error);
    into.add(op);
  }
  /// What is returned to the caller; part of a batch between startCoalescing and endCoalescing.
  c10::intrusive_ptr<c10d::Work> give(c10::intrusive_ptr<work> made) {
    if (coalesced_) coalesced_->push_back(made);
    return made;
  }
  std::size_t ranks() const { return static_cast<std::size_t>(getSize()); }
  void check_list(const char* call, const tensors& all) const;

  void start_all_reduce(work& into, const Tensor& data, const c10d::ReduceOp& op, milliseconds timeout);
  void start_all_gather(work& into, const tensors& outputs, const Tensor& input, milliseconds timeout);
  void start_all_gather_base(work& into, const Tensor& output, const Tensor& input, milliseconds timeout);
  void start_reduce_scatter_base(work& into, const Tensor& output, const Tensor& input, const c10d::ReduceOp& op,
                                 milliseconds timeout);
  void wait_in_barrier(tandem_status (*function)(tandem_comm*, tandem_buffer, std::int32_t, std::int32_t,
                                                 const tandem_call*, tandem_op**, tandem_error*),
                       int peer, int tag, milliseconds timeout, tandem_error& error, tandem_status& status);

  std::shared_ptr<job> job_;
  tandem_comm* comm_;
  const bool is_part_ = false;
  milliseconds timeout_;
  std::atomic<std::uint64_t> calls_{0};
  std::uint64_t barriers_ = 0;
  std::optional<std::vector<c10::intrusive_ptr<work>>> coalesced_;
};

void backend::check_list(const char* call, const tensors& all) const {
  TORCH_CHECK_VALUE(all.size() == ranks(), "tandem: ", call, ": ", all.size(), " tensors, expected one for each of ",
                    getSize(), " ranks");
  for (const Tensor& t : all) {
    check_tensor(call, t);
    check_same_type(call, t, all.front());
  }
}

c10::intrusive_ptr<c10d::Work> backend::endCoalescing() {
  TORCH_CHECK(coalesced_, "tandem: endCoalescing without startCoalescing");
  const auto parts = std::move(*coalesced_);
  coalesced_.reset();
  auto all = c10::make_intrusive<work>(getRank(), OpType::COALESCED, "tandem:coalesced", tensors(), tensors());
  for (const auto& part : parts) all->add(part);
  return all;
}

c10::intrusive_ptr<c10d::Work> backend::broadcast(tensors& data, const c10d::BroadcastOptions& opts) {
  const Tensor& t = only_one("broadcast", data);
  auto made = make(OpType::BROADCAST, "tandem:broadcast", data, data);
  const Tensor used = dense(t);
  made->keep(used);
  if (used.data_ptr() != t.data_ptr() || !is_writable_in_place(t)) made->after([t, used] { t.copy_(used); });
  start(*made, opts.timeout, tandem_broadcast, buffer_of(used), static_cast<std::int32_t>(opts.rootRank));
  return give(made);
}

void backend::start_all_reduce(work& into, const Tensor& data, const c10d::ReduceOp& op, milliseconds timeout) {
  const tandem_reduction how = reduction_of(op, data);
  const Tensor used = dense(data);
  into.keep(used);
  if (!is_writable_in_place(data)) into.after([data, used] { data.copy_(used); });
  start(into, timeout, tandem_all_reduce, buffer_of(used), buffer_of(used), how);
}

c10::intrusive_ptr<c10d::Work> backend::allreduce(tensors& data, const c10d::AllreduceOptions& opts) {
  const Tensor& t = only_one("all_reduce", data);
  auto made = make(OpType::ALLREDUCE, "tandem:all_reduce", data, data);
  start_all_reduce(*made, t, opts.reduceOp, opts.timeout);
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::allreduce_coalesced(tensors& data,
                                                            const c10d::AllreduceCoalescedOptions& opts) {
  for (const Tensor& t : data) check_tensor("all_reduce_coalesced", t);
  auto made = make(OpType::ALLREDUCE_COALESCED, "tandem:all_reduce_coalesced", data, data);
  for (const Tensor& t : data) start_all_reduce(*made, t, opts.reduceOp, opts.timeout);
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::reduce(tensors& data, const c10d::ReduceOptions& opts) {
  const Tensor& t = only_one("reduce", data);
  const tandem_reduction how = reduction_of(opts.reduceOp, t);
  auto made = make(OpType::REDUCE, "tandem:reduce", data, data);
  const Tensor used = dense(t);
  made->keep(used);
  if (!is_writable_in_place(t) && opts.rootRank == getRank()) made->after([t, used] { t.copy_(used); });
  start(*made, opts.timeout, tandem_reduce, buffer_of(used), buffer_of(used), how,
        static_cast<std::int32_t>(opts.rootRank));
  return give(made);
}

void backend::start_all_gather(work& into, const tensors& outputs, const Tensor& input, milliseconds timeout) {
  check_list("all_gather", outputs);
  check_tensor("all_gather", input);
  check_same_type("all_gather", outputs.front(), input);
  const Tensor& mine = outputs[static_cast<std::size_t>(getRank())];
  TORCH_CHECK_VALUE(mine.numel() == input.numel(), "tandem: all_gather: the input has ", input.numel(),
                    " elements, the output for this rank ", mine.numel());
  const Tensor from = dense(input);
  const Tensor all = joined_memory(outputs);
  into.keep({from, all});
  into.after([all, outputs] { distribute(all, outputs); });
  const std::vector<std::size_t> lengths = lengths_of(outputs);
  start(into, timeout, tandem_all_gather, buffer_of(from), buffer_of(all),
        are_equally_long(outputs) ? nullptr : lengths.data());
}

c10::intrusive_ptr<c10d::Work> backend::allgather(std::vector<tensors>& outputs, tensors& inputs,
                                                  const c10d::AllgatherOptions& opts) {
  const Tensor& input = only_one("all_gather", inputs);
  TORCH_CHECK_VALUE(outputs.size() == 1, "tandem: all_gather: expected one list of outputs");
  auto made = make(OpType::ALLGATHER, "tandem:all_gather", inputs, outputs.front());
  start_all_gather(*made, outputs.front(), input, opts.timeout);
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::allgather_coalesced(std::vector<tensors>& outputs, tensors& inputs,
                                                            const c10d::AllgatherOptions& opts) {
  TORCH_CHECK_VALUE(outputs.size() == ranks(), "tandem: all_gather_coalesced: ", outputs.size(),
                    " lists of outputs, expected one for each of ", getSize(), " ranks");
  tensors flat;
  for (const tensors& of_rank : outputs) {
    TORCH_CHECK_VALUE(of_rank.size() == inputs.size(), "tandem: all_gather_coalesced: a list of ", of_rank.size(),
                      " outputs for ", inputs.size(), " inputs");
    flat.insert(flat.end(), of_rank.begin(), of_rank.end());
  }
  auto made = make(OpType::ALLGATHER_COALESCED, "tandem:all_gather_coalesced", inputs, std::move(flat));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    tensors of_input;
    for (const tensors& of_rank : outputs) of_input.push_back(of_rank[i]);
    start_all_gather(*made, of_input, inputs[i], opts.timeout);
  }
  return give(made);
}

void backend::start_all_gather_base(work& into, const Tensor& output, const Tensor& input, milliseconds timeout) {
  check_tensor("all_gather_into_tensor", output);
  check_tensor("all_gather_into_tensor", input);
  check_same_type("all_gather_into_tensor", output, input);
  TORCH_CHECK_VALUE(output.numel() == input.numel() * getSize(), "tandem: all_gather_into_tensor: the output has ",
                    output.numel(), " elements, expected ", getSize(), " times the input's ", input.numel());
  const Tensor from = dense(input);
  const Tensor all = is_writable_in_place(output) ? output : at::empty(output.sizes(), output.options());
  into.keep({from, all});
  if (!is_writable_in_place(output)) into.after([output, all] { output.copy_(all); });
  start(into, timeout, tandem_all_gather, buffer_of(from), buffer_of(all), nullptr);
}

c10::intrusive_ptr<c10d::Work> backend::_allgather_base(Tensor& output, Tensor& input,
                                                        const c10d::AllgatherOptions& opts) {
  auto made = make(OpType::_ALLGATHER_BASE, "tandem:_all_gather_base", {input}, {output});
  start_all_gather_base(*made, output, input, opts.timeout);
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::allgather_into_tensor_coalesced(tensors& outputs, tensors& inputs,
                                                                        const c10d::AllgatherOptions& opts) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "tandem: all_gather_into_tensor_coalesced: ", outputs.size(),
                    " outputs for ", inputs.size(), " inputs");
  auto made = make(OpType::COALESCED, "tandem:all_gather_into_tensor_coalesced", inputs, outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) start_all_gather_base(*made, outputs[i], inputs[i], opts.timeout);
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::gather(std::vector<tensors>& outputs, tensors& inputs,
                                               const c10d::GatherOptions& opts) {
  const Tensor& input = only_one("gather", inputs);
  const bool is_root = opts.rootRank == getRank();
  TORCH_CHECK_VALUE(outputs.size() == (is_root ? 1u : 0u), "tandem: gather: expected ",
                    is_root ? "one list of outputs at the root" : "no outputs at other ranks than the root");
  auto made = make(OpType::GATHER, "tandem:gather", inputs, is_root ? outputs.front() : tensors());
  const Tensor from = dense(input);
  made->keep(from);
  tandem_buffer all{nullptr, 0, TANDEM_HOST, 0};
  if (is_root) {
    const tensors& list = outputs.front();
    check_list("gather", list);
    check_same_type("gather", list.front(), input);
    TORCH_CHECK_VALUE(are_equally_long(list) && list.front().numel() == input.numel(),
                      "tandem: gather: inputs and outputs differ in size");
    const Tensor into = joined_memory(list);
    made->keep(into);
    made->after([into, list] { distribute(into, list); });
    all = buffer_of(into);
  }
  start(*made, opts.timeout, tandem_gather, buffer_of(from), all, nullptr, static_cast<std::int32_t>(opts.rootRank));
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::scatter(tensors& outputs, std::vector<tensors>& inputs,
                                                const c10d::ScatterOptions& opts) {
  const Tensor& output = only_one("scatter", outputs);
  const bool is_root = opts.rootRank == getRank();
  TORCH_CHECK_VALUE(inputs.size() == (is_root ? 1u : 0u), "tandem: scatter: expected ",
                    is_root ? "one list of inputs at the root" : "no inputs at other ranks than the root");
  auto made = make(OpType::SCATTER, "tandem:scatter", is_root ? inputs.front() : tensors(), outputs);
  const Tensor into = is_writable_in_place(output) ? output : at::empty(output.sizes(), output.options());
  made->keep(into);
  if (!is_writable_in_place(output)) made->after([output, into] { output.copy_(into); });
  tandem_buffer all{nullptr, 0, TANDEM_HOST, 0};
  if (is_root) {
    const tensors& list = inputs.front();
    check_list("scatter", list);
    check_same_type("scatter", list.front(), output);
    TORCH_CHECK_VALUE(are_equally_long(list) && list.front().numel() == output.numel(),
                      "tandem: scatter: inputs and output differ in size");
    const Tensor from = joined(list);
    made->keep(from);
    all = buffer_of(from);
  }
  start(*made, opts.timeout, tandem_scatter, all, buffer_of(into), nullptr, static_cast<std::int32_t>(opts.rootRank));
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::reduce_scatter(tensors& outputs, std::vector<tensors>& inputs,
                                                       const c10d::ReduceScatterOptions& opts) {
  const Tensor& output = only_one("reduce_scatter", outputs);
  TORCH_CHECK_VALUE(inputs.size() == 1, "tandem: reduce_scatter: expected one list of inputs");
  const tensors& list = inputs.front();
  check_list("reduce_scatter", list);
  check_same_type("reduce_scatter", list.front(), output);
  TORCH_CHECK_VALUE(list[static_cast<std::size_t>(getRank())].numel() == output.numel(),
                    "tandem: reduce_scatter: the output has ", output.numel(), " elements, the input for this rank ",
                    list[static_cast<std::size_t>(getRank())].numel());
  const tandem_reduction how = reduction_of(opts.reduceOp, output);
  auto made = make(OpType::REDUCE_SCATTER, "tandem:reduce_scatter", list, outputs);
  const Tensor from = joined(list);
  const Tensor into = is_writable_in_place(output) ? output : at::empty(output.sizes(), output.options());
  made->keep({from, into});
  made->keep(list);
  if (!is_writable_in_place(output)) made->after([output, into] { output.copy_(into); });
  const std::vector<std::size_t> lengths = lengths_of(list);
  start(*made, opts.timeout, tandem_reduce_scatter, buffer_of(from), buffer_of(into),
        are_equally_long(list) ? nullptr : lengths.data(), how);
  return give(made);
}

void backend::start_reduce_scatter_base(work& into, const Tensor& output, const Tensor& input,
                                        const c10d::ReduceOp& op, milliseconds timeout) {
  check_tensor("reduce_scatter_tensor", output);
  check_tensor("reduce_scatter_tensor", input);
  check_same_type("reduce_scatter_tensor", output, input);
  TORCH_CHECK_VALUE(input.numel() == output.numel() * getSize(), "tandem: reduce_scatter_tensor: the input has ",
                    input.numel(), " elements, expected ", getSize(), " times the output's ", output.numel());
  const tandem_reduction how = reduction_of(op, output);
  const Tensor from = dense(input);
  const Tensor result = is_writable_in_place(output) ? output : at::empty(output.sizes(), output.options());
  into.keep({from, result});
  if (!is_writable_in_place(output)) into.after([output, result] { output.copy_(result); });
  start(into, timeout, tandem_reduce_scatter, buffer_of(from), buffer_of(result), nullptr, how);
}

c10::intrusive_ptr<c10d::Work> backend::_reduce_scatter_base(Tensor& output, Tensor& input,
                                                             const c10d::ReduceScatterOptions& opts) {
  auto made = make(OpType::_REDUCE_SCATTER_BASE, "tandem:_reduce_scatter_base", {input}, {output});
  start_reduce_scatter_base(*made, output, input, opts.reduceOp, opts.timeout);
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::reduce_scatter_tensor_coalesced(tensors& outputs, tensors& inputs,
                                                                        const c10d::ReduceScatterOptions& opts) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "tandem: reduce_scatter_tensor_coalesced: ", outputs.size(),
                    " outputs for ", inputs.size(), " inputs");
  auto made = make(OpType::COALESCED, "tandem:reduce_scatter_tensor_coalesced", inputs, outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    start_reduce_scatter_base(*made, outputs[i], inputs[i], opts.reduceOp, opts.timeout);
  }
  return give(made);
}

/// Lengths in bytes of blocks of the first dimension.
std::vector<std::size_t> split_lengths(const char* which, const std::vector<std::int64_t>& splits, const Tensor& of,
                                       std::size_t ranks) {
  const std::int64_t rows = of.dim() == 0 ? of.numel() : of.size(0);
  if (splits.empty()) {
    TORCH_CHECK_VALUE(rows % static_cast<std::int64_t>(ranks) == 0, "tandem: all_to_all_single: the ", which,
                      "'s first dimension, ", rows, ", is not divisible by ", ranks, " ranks");
    return std::vector<std::size_t>(ranks, of.nbytes() / ranks);
  }
  TORCH_CHECK_VALUE(splits.size() == ranks, "tandem: all_to_all_single: ", splits.size(), " ", which,
                    " splits, expected one for each of ", ranks, " ranks");
  const std::int64_t sum = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
  TORCH_CHECK_VALUE(sum == rows, "tandem: all_to_all_single: the ", which, " splits add up to ", sum,
                    ", its first dimension is ", rows);
  const std::size_t row_bytes = rows == 0 ? 0 : of.nbytes() / static_cast<std::size_t>(rows);
  std::vector<std::size_t> bytes;
  for (const std::int64_t split : splits) bytes.push_back(static_cast<std::size_t>(split) * row_bytes);
  return bytes;
}

c10::intrusive_ptr<c10d::Work> backend::alltoall_base(Tensor& output, Tensor& input,
                                                      std::vector<std::int64_t>& output_splits,
                                                      std::vector<std::int64_t>& input_splits,
                                                      const c10d::AllToAllOptions& opts) {
  check_tensor("all_to_all_single", output);
  check_tensor("all_to_all_single", input);
  check_same_type("all_to_all_single", output, input);
  auto made = make(OpType::ALLTOALL_BASE, "tandem:all_to_all", {input}, {output});
  const Tensor from = dense(input);
  const Tensor into = is_writable_in_place(output) ? output : at::empty(output.sizes(), output.options());
  made->keep({from, into});
  if (!is_writable_in_place(output)) made->after([output, into] { output.copy_(into); });
  const std::vector<std::size_t> received = split_lengths("output", output_splits, output, ranks());
  const std::vector<std::size_t> sent = split_lengths("input", input_splits, input, ranks());
  const bool is_equal = output_splits.empty() && input_splits.empty();
  start(*made, opts.timeout, tandem_all_to_all, buffer_of(from), is_equal ? nullptr : sent.data(), buffer_of(into),
        is_equal ? nullptr : received.data());
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::alltoall(tensors& outputs, tensors& inputs,
                                                 const c10d::AllToAllOptions& opts) {
  check_list("all_to_all", outputs);
  check_list("all_to_all", inputs);
  check_same_type("all_to_all", outputs.front(), inputs.front());
  auto made = make(OpType::ALLTOALL, "tandem:all_to_all", inputs, outputs);
  const Tensor from = joined(inputs);
  const Tensor into = joined_memory(outputs);
  made->keep({from, into});
  made->keep(inputs);
  made->after([into, list = outputs] { distribute(into, list); });
  const std::vector<std::size_t> sent = lengths_of(inputs);
  const std::vector<std::size_t> received = lengths_of(outputs);
  start(*made, opts.timeout, tandem_all_to_all, buffer_of(from), sent.data(), buffer_of(into), received.data());
  return give(made);
}

void check_tag(int tag) {
  TORCH_CHECK_VALUE(tag >= 0 && tag < first_barrier_tag, "tandem: tag ", tag, ": tags are 0 to ",
                    first_barrier_tag - 1);
}

c10::intrusive_ptr<c10d::Work> backend::send(tensors& data, int to, int tag) {
  const Tensor& t = only_one("send", data);
  check_tag(tag);
  auto made = make(OpType::SEND, "tandem:send", data, data);
  const Tensor used = dense(t);
  made->keep(used);
  start(*made, c10d::kUnsetTimeout, tandem_send, buffer_of(used), to, tag);
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::recv(tensors& data, int from, int tag) {
  const Tensor& t = only_one("recv", data);
  check_tag(tag);
  auto made = make(OpType::RECV, "tandem:recv", data, data);
  const Tensor used = dense(t);
  made->keep(used);
  if (!is_writable_in_place(t)) made->after([t, used] { t.copy_(used); });
  start(*made, c10d::kUnsetTimeout, tandem_recv, buffer_of(used), from, tag);
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::recvAnysource(tensors& data, int tag) {
  const Tensor& t = only_one("recv", data);
  check_tag(tag);
  auto made = make(OpType::RECVANYSOURCE, "tandem:recv_any_source", data, data);
  const Tensor used = dense(t);
  made->keep(used);
  if (!is_writable_in_place(t)) made->after([t, used] { t.copy_(used); });
  start(*made, c10d::kUnsetTimeout, tandem_recv, buffer_of(used), std::int32_t{TANDEM_ANY_SOURCE}, tag);
  return give(made);
}

c10::intrusive_ptr<c10d::Work> backend::barrier(const c10d::BarrierOptions& opts) {
  auto made = make(OpType::BARRIER, "tandem:barrier", {}, {});
  start(*made, opts.timeout, tandem_barrier);
  return give(made);
}

void backend::wait_in_barrier(tandem_status (*function)(tandem_comm*, tandem_buffer, std::int32_t, std::int32_t,
                                                        const tandem_call*, tandem_op**, tandem_error*),
                              int peer, int tag, milliseconds timeout, tandem_error& error, tandem_status& status) {
  tandem_call call = TANDEM_CALL_INIT;
  call.timeout_ms = std::max<std::int64_t>(timeout.count(), 1);
  tandem_op* op = nullptr;
  status = function(comm(), {nullptr, 0, TANDEM_HOST, 0}, peer, tag, &call, &op, &error);
  if (status == TANDEM_OK) status = tandem_op_wait(op, -1, &error);
  tandem_op_release(op);
}

/// Rank 0 hears of each rank, and then tells all of them to go on.
void backend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_for_all) {
  const milliseconds timeout = opts.timeout == c10d::kUnsetTimeout ? timeout_ : opts.timeout;
  const auto limit = std::chrono::steady_clock::now() + timeout;
  const int tag = first_barrier_tag + static_cast<int>(barriers_++ % barrier_tags);
  tandem_error error = TANDEM_ERROR_INIT;
  tandem_status status = TANDEM_OK;
  if (getRank() != 0) {
    wait_in_barrier(tandem_send, 0, tag, timeout, error, status);
    if (status == TANDEM_OK) wait_in_barrier(tandem_recv, 0, tag, timeout, error, status);
    if (status == TANDEM_OK) return;
    C10_THROW_ERROR(DistBackendError,
                    c10::str("Rank ", getRank(),
                             " successfully reached monitoredBarrier, but received errors while waiting for send/recv "
                             "from rank 0. Please check rank 0 logs for faulty rank. Original error: ", error.text));
  }
  std::vector<int> missing;
  for (int peer = 1; peer < getSize(); ++peer) {
    const auto left = std::chrono::duration_cast<milliseconds>(limit - std::chrono::steady_clock::now());
    wait_in_barrier(tandem_recv, peer, tag, left, error, status);
    if (status == TANDEM_OK) continue;
    missing.push_back(peer);
    if (!wait_for_all) break;
  }
  if (!missing.empty()) {
    std::string ranks;
    for (const int peer : missing) ranks += (ranks.empty() ? "" : ", ") + std::to_string(peer);
    C10_THROW_ERROR(DistBackendError,
                    c10::str("[Rank 0]: Ranks ", ranks, " failed to pass monitoredBarrier in ", timeout.count(),
                             " ms. ", wait_for_all ? "" : "Later ranks were not waited for. ", "Last error: ", error.text));
  }
  for (int peer = 1; peer < getSize(); ++peer) wait_in_barrier(tandem_send, peer, tag, timeout, error, status);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  namespace py = pybind11;
  using release_gil = py::call_guard<py::gil_scoped_release>;
  py::class_<backend, c10::intrusive_ptr<backend>, c10d::Backend>(m, "Backend")
      .def("create_group", &backend::create_group, py::arg("ranks"), py::arg("name"), py::arg("timeout"), release_gil())
      .def("describe", &backend::describe)
      .def("leave", &backend::leave, release_gil())
      .def("perform_nocolor_split", [](backend&, const at::Device&) {});
  m.def(
      "create_job",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, milliseconds timeout, const std::string& name) {
        return c10::make_intrusive<backend>(std::make_shared<job>(*store, rank, size, timeout, name), timeout);
      },
      py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("name"), release_gil());
  m.attr("abi_version") = TANDEM_ABI_VERSION;
  m.attr("library_abi_version") = tandem_abi_version();
  m.attr("version") = tandem_version();
}
