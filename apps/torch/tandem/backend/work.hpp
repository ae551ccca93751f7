#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <tandem.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "observed_call.hpp"
#include "tensors.hpp"
#include "versions.hpp"

namespace tandem::torch_backend {

/// Operations in progress, what is to be done after them, and the tensors that they use.
class work final : public c10d::Work {
 public:
  work(int rank, OpType what, const char* title, const tensors& inputs, tensors outputs)
      : Work(rank, what, title, inputs), title_(title), outputs_(std::move(outputs)) {}
  ~work() override;

  void keep(tensors used) { kept_.insert(kept_.end(), used.begin(), used.end()); }
  void keep(const Tensor& used) { kept_.push_back(used); }
  void add(tandem_op* op) {
    ops_.push_back(op);
    observed_.started(op);
  }
  observed_call& observed() noexcept { return observed_; }
  const tensors& outputs() const noexcept { return outputs_; }
  /// Its tensors are on that GPU: streams wait for it, not threads where that is possible.
  void is_on(c10::Device gpu) {
    gpu_ = gpu;
    called_on_ = current_stream(gpu);
  }
  /// Started with the others of a batch, at its end: until then nothing waits for it.
  void set_in_batch(bool is) { is_in_batch_ = is; }
  void after(std::function<void()> what) { after_.push_back(std::move(what)); }
  /// Takes over what another work waits for.
  void add(c10::intrusive_ptr<work> part) { parts_.push_back(std::move(part)); }

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(milliseconds timeout = kNoTimeout) override {
    if (is_in_batch_) return true;
    const observed_scope observed = observed_.waiting();
    return finish_wait(timeout);
  }
  void synchronize() override {
    if (gpu_) wait_on_stream(current_stream(*gpu_));
  }
  void abort() override {
    for (tandem_op* op : ops_) tandem_op_cancel(op);
    for (const auto& part : parts_) part->abort();
  }
  std::vector<Tensor> result() override { return outputs_; }
  int sourceRank() const override { return source_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  struct abandoned;

  bool finish_wait(milliseconds timeout);
  void complete();
  void watch();
  void run_steps(std::optional<c10::Stream> stream);
  void wait_on_stream(c10::Stream stream);
  std::optional<c10::StreamGuard> on_side_stream() const;
  bool streams_can_wait() const;
  std::vector<c10::Device> gpus() const;
  c10::intrusive_ptr<c10::ivalue::Future> completed_future();

  observed_call observed_;
  const std::string title_;
  const tensors outputs_;
  tensors kept_;
  std::vector<tandem_op*> ops_;
  std::vector<std::function<void()>> after_;
  std::vector<c10::intrusive_ptr<work>> parts_;
  std::mutex completion_;  // held while `after_` runs
  bool is_complete_ = false;
  bool is_finished_ = false;  ///< `finish` was called
  std::optional<c10::Device> gpu_;
  std::optional<c10::Stream> called_on_;  ///< the stream that its tensors belong to
  bool is_in_batch_ = false;
  bool is_ordered_ = false;  ///< memory that is freed is not used again before it is complete
  std::optional<c10::Event> steps_;  ///< what `after_` has queued on the first stream that waited
  int source_ = -1;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool is_future_pending_ = false;  ///< `complete` has to tell it
  std::atomic<std::size_t> watched_{0};
};

/// What operations still use when their handle is gone.
struct work::abandoned {
  tensors kept;
  std::atomic<std::size_t> left;
  observed_call observed;
};

work::~work() {
  if (is_ordered_ && observed_.keep()) return;
  observed_.forget();
  const auto is_over = [](tandem_op* op) {
    return tandem_op_test(op, nullptr) != TANDEM_IN_PROGRESS;
  };
  if (is_ordered_ || std::all_of(ops_.begin(), ops_.end(), is_over)) {
    for (tandem_op* op : ops_) tandem_op_release(op);
    return;
  }
  auto* const rest = new abandoned{std::move(kept_), {ops_.size()}, std::move(observed_)};
  for (const Tensor& t : outputs_) rest->kept.push_back(t);
  for (tandem_op* op : ops_) {
    tandem_op_on_complete(
        op,
        [](void* context, tandem_op* over) {
          auto* const of = static_cast<abandoned*>(context);
          const bool is_success = tandem_op_test(over, nullptr) == TANDEM_OK;
          tandem_op_release(over);
          if (--of->left > 0) return;
          of->observed.end(is_success);
          delete of;
        },
        rest);
  }
}

/// Once, when all operations are complete.
inline void work::complete() {
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
      run_steps(gpu_ ? std::optional(current_stream(*gpu_)) : std::nullopt);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  after_.clear();
  kept_.clear();
  observed_.end(!failure, source_);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard future_lock(future_mutex_);
    if (!is_finished_ || failure) finish(failure);
    is_finished_ = true;
    if (std::exchange(is_future_pending_, false)) future = future_;
  }
  if (!future) return;
  if (failure) {
    future->setErrorIfNeeded(failure);
  } else {
    future->markCompleted(c10::IValue(outputs_));
  }
}

inline bool work::isCompleted() {
  for (tandem_op* op : ops_) {
    if (tandem_op_test(op, nullptr) == TANDEM_IN_PROGRESS) return false;
  }
  for (const auto& part : parts_) {
    if (!part->isCompleted()) return false;
  }
  complete();
  return true;
}

inline bool work::isSuccess() const {
  return !exception();
}

inline std::exception_ptr work::exception() const {
  const std::lock_guard lock(mutex_);
  return exception_;
}

/// Once: what is to be done after the operations, which a stream does where it waits for them.
inline void work::run_steps(std::optional<c10::Stream> stream) {
  if (after_.empty()) return;
  for (const auto& step : after_) step();
  after_.clear();
  if (!stream) return;
  for (const Tensor& t : kept_) {
    if (t.is_cuda()) t.record_stream(*stream);
  }
  steps_.emplace(stream->device_type());
  steps_->record(*stream);
}

/// Makes the stream wait for the operations and then do the steps after them.
inline void work::wait_on_stream(c10::Stream stream) {
  const std::lock_guard lock(completion_);
  for (tandem_op* op : ops_) {
    tandem_error error = TANDEM_ERROR_INIT;
    check(tandem_op_wait_stream(op, native_handle_of(stream), &error), error);
  }
  if (steps_) steps_->block(stream);
  run_steps(stream);
  if (stream != *called_on_) {
    for (const Tensor& t : kept_) {
      if (t.is_cuda()) t.record_stream(stream);
    }
  }
  is_ordered_ = true;
  if (!is_finished_) finish();
  is_finished_ = true;
}

inline bool work::finish_wait(milliseconds timeout) {
  const bool is_limited = timeout != kNoTimeout && timeout.count() > 0;
  if (gpu_ && !is_limited) {
    wait_on_stream(current_stream(*gpu_));
    for (const auto& part : parts_) part->wait(timeout);
    return true;
  }
  const auto limit = std::chrono::steady_clock::now() + timeout;
  for (tandem_op* op : ops_) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(limit - std::chrono::steady_clock::now());
    const std::int64_t most_ms = is_limited ? std::max<std::int64_t>(left.count(), 0) : -1;
    if (tandem_op_wait(op, most_ms, nullptr) == TANDEM_IN_PROGRESS) {
      C10_THROW_ERROR(DistBackendError,
                      c10::str("tandem: caught collective operation timeout: ", title_,
                               " is not complete after ", timeout.count(),
                               " ms: another rank has not joined it yet, or it takes longer"));
    }
  }
  for (const auto& part : parts_) part->wait(timeout);
  complete();
  if (const std::exception_ptr failure = exception()) std::rethrow_exception(failure);
  if (gpu_) wait_on_stream(current_stream(*gpu_));  // for what `complete` has queued
  return true;
}

/// The object stays alive until the last operation is complete. @pre there are operations
inline void work::watch() {
  for (tandem_op* op : ops_) {
    tandem_op_on_complete(
        op,
        [](void* context, tandem_op*) {
          auto* const self = static_cast<work*>(context);
          if (++self->watched_ == self->ops_.size()) {
            {
              const std::optional<c10::StreamGuard> side = self->on_side_stream();
              self->complete();
            }
            if (!self->isSuccess()) flight_recorder::all().dump_after(dump_reason::failure);
            c10::intrusive_ptr<work>::reclaim(self);
          }
        },
        this);
  }
}

/// For values that belong to no stream of the caller's.
inline std::optional<c10::StreamGuard> work::on_side_stream() const {
  if (!gpu_) return std::nullopt;
  const c10::impl::VirtualGuardImpl device(gpu_->type());
  return std::optional<c10::StreamGuard>(std::in_place, device.getStreamFromGlobalPool(*gpu_));
}

inline bool work::streams_can_wait() const {
  return std::all_of(ops_.begin(), ops_.end(),
                     [](tandem_op* op) { return tandem_op_streams_can_wait(op) != 0; });
}

inline std::vector<c10::Device> work::gpus() const {
  return gpu_ ? std::vector<c10::Device>{*gpu_} : std::vector<c10::Device>();
}

/// Complete when it is returned: waits for the operations. On a GPU the values belong to a stream
/// of its own, for which code that uses them waits.
inline c10::intrusive_ptr<c10::ivalue::Future> work::completed_future() {
  auto made = c10::make_intrusive<c10::ivalue::Future>(
      c10::ListType::create(c10::TensorType::get()), gpus());
  const std::optional<c10::StreamGuard> side = on_side_stream();
  try {
    if (!is_in_batch_) finish_wait(kNoTimeout);
    made->markCompleted(c10::IValue(outputs_));
  } catch (...) {
    made->setError(std::current_exception());
  }
  return made;
}

inline c10::intrusive_ptr<c10::ivalue::Future> work::getFuture() {
  // Without operations of its own nothing would complete it: parts of a batch, sparse sums.
  if (ops_.empty() || (gpu_ && (is_in_batch_ || streams_can_wait()))) {
    const c10::intrusive_ptr<c10::ivalue::Future> made = completed_future();
    const std::lock_guard lock(future_mutex_);
    if (!future_) future_ = made;
    return future_;
  }
  {
    const std::lock_guard lock(future_mutex_);
    if (future_) return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), gpus());
    std::exception_ptr failure;
    bool is_over = false;
    {
      const std::lock_guard state(mutex_);
      is_over = completed_;
      failure = exception_;
    }
    if (is_over && failure) {
      future_->setError(failure);
    } else if (is_over) {
      future_->markCompleted(c10::IValue(outputs_));
    }
    is_future_pending_ = !is_over;
    if (is_over) return future_;
  }
  c10::intrusive_ptr<work>::unsafe_reclaim_from_nonowning(this).release();  // until `watch` is done
  watch();
  return future_;
}

/// Calls between startCoalescing and endCoalescing. Those on a GPU start at the end, together.
struct batch {
  void defer(work& of, tandem_call& call) {
    call.batch = operations.get();
    of.set_in_batch(true);
  }
  void launch() {
    tandem_error error = TANDEM_ERROR_INIT;
    check(tandem_batch_launch(operations.get(), &error), error);
    for (const auto& part : parts) part->set_in_batch(false);
  }

  struct destroy {
    void operator()(tandem_batch* which) const { tandem_batch_destroy(which); }
  };
  std::unique_ptr<tandem_batch, destroy> operations{tandem_batch_create()};
  std::vector<c10::intrusive_ptr<work>> parts;
};

/// A tensor that a call reads, in consecutive memory.
inline Tensor input_of(work& call, const Tensor& t) {
  const Tensor used = dense(t);
  call.keep(used);
  return used;
}

/// A tensor that a call reads and writes: itself, or a copy that is copied back.
inline Tensor in_place_of(work& call, const Tensor& t) {
  const Tensor used = input_of(call, t);
  if (!is_dense(t)) call.after([t, used] { t.copy_(used); });
  return used;
}

/// A tensor that a call writes: itself, or memory from which it is copied.
inline Tensor output_of(work& call, const Tensor& t) {
  if (is_dense(t)) {
    call.keep(t);
    return t;
  }
  const Tensor used = at::empty(t.sizes(), t.options());
  call.keep(used);
  call.after([t, used] { t.copy_(used); });
  return used;
}

}  // namespace tandem::torch_backend
