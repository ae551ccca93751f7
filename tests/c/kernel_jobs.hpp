#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "c/device_bytes.hpp"
#include "c/device_job.hpp"
#include "operation.hpp"

namespace tandem::test {

/// How kernels reach those of other ranks.
enum class kernel_way { direct, relayed };

/// The ranks are islands of their own, on one host.
struct kernel_jobs : device_jobs {
  kernel_jobs(std::vector<int> devices, kernel_way by,
              int first_of_amd = std::numeric_limits<int>::max())
      : device_jobs(std::move(devices), first_of_amd), way(by) {
    separate_islands();
  }
  void run(const std::function<void(device_rank&)>& what, const char* max_bytes = "256K") {
    const bool is_direct = way == kernel_way::direct;
    std::vector<const char*> all{"stream-kernel-bytes",  is_direct ? max_bytes : "0",
                                 "stream-relay-bytes",   is_direct ? "0" : max_bytes,
                                 "stream-staging-bytes", "0"};
    all.insert(all.end(), settings.begin(), settings.end());
    all.push_back(nullptr);
    device_jobs::run(what, all);
  }
  std::size_t launches() const { return gpus.gpus.seen().launches; }

  const kernel_way way;
  std::vector<const char*> settings = {};  ///< names and values
};

/// Tests of both ways.
class KernelWays : public testing::TestWithParam<kernel_way> {};
inline std::string name_of_way(const testing::TestParamInfo<kernel_way>& of) {
  return of.param == kernel_way::direct ? "Direct" : "Relayed";
}

/// Calls of one batch that the rank's stream carries out itself.
class stream_group {
 public:
  explicit stream_group(device_rank& me) : me_(me), batch_(tandem_batch_create()) {}
  ~stream_group() { tandem_batch_destroy(batch_); }
  stream_group(const stream_group&) = delete;
  stream_group& operator=(const stream_group&) = delete;

  void send(const tandem_buffer& what, int to) {
    add([=](const device_rank& me, auto... rest) {
      return tandem_send(me.world, what, to, 0, rest...);
    });
  }
  void receive(const tandem_buffer& into, int from) {
    add([=](const device_rank& me, auto... rest) {
      return tandem_recv(me.world, into, from, 0, rest...);
    });
  }
  void all_reduce(const tandem_buffer& from, const tandem_buffer& into,
                  const tandem_reduction& how) {
    add([=](const device_rank& me, auto... rest) {
      return tandem_all_reduce(me.world, from, into, how, rest...);
    });
  }
  /// Any other operation.
  using start_function = std::function<tandem_status(const device_rank&, const tandem_call*,
                                                     tandem_op**, tandem_error*)>;
  void add(const start_function& start) { add_on(me_.stream.get(), start); }
  void add_on(accelerator::stream which, const start_function& start) {
    tandem_call call = me_.call(batch_);
    call.stream = which;
    call.in_stream = in_stream;
    call.timeout_ms = limit_ms;
    tandem_op* op = nullptr;
    EXPECT_EQ(start(me_, &call, &op, &me_.error), TANDEM_OK) << me_.error.text;
    if (op == nullptr) return;
    ops_.push_back(op);
    streams_.push_back(which);
  }
  /// Their streams wait for them then. Returns the first failure.
  tandem_status launch() {
    EXPECT_EQ(tandem_batch_launch(batch_, &me_.error), TANDEM_OK) << me_.error.text;
    tandem_status first = TANDEM_OK;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const tandem_status status = tandem_op_wait_stream(ops_[i], streams_[i], &me_.error);
      if (first == TANDEM_OK) first = status;
    }
    return first;
  }
  /// Whether all are known to be complete already.
  bool are_done() const {
    return std::ranges::all_of(ops_, [](const tandem_op* op) { return op->state->is_done(); });
  }
  /// Waits for all, and returns the first failure.
  tandem_status finish() {
    tandem_status first = TANDEM_OK;
    streams_.clear();
    for (tandem_op* const each : std::exchange(ops_, {})) {
      tandem_error why = TANDEM_ERROR_INIT;
      const tandem_status status = tandem_op_wait(each, 20000, &why);
      if (status != TANDEM_OK && first == TANDEM_OK) {
        first = status;
        me_.error = why;
      }
      tandem_op_release(each);
    }
    return first;
  }
  std::int64_t limit_ms = 0;
  std::int32_t in_stream = 1;

 private:
  device_rank& me_;
  tandem_batch* batch_;
  std::vector<tandem_op*> ops_;
  std::vector<accelerator::stream> streams_;
};

/// To the next rank and from the one before; returns what arrived.
inline int ring_step(device_rank& me, filled_bytes& sent, filled_bytes& received, int value) {
  const int next = (me.rank + 1) % me.ranks, before = (me.rank + me.ranks - 1) % me.ranks;
  sent.fill(value);
  stream_group both(me);
  both.receive(received.buffer(), before);
  both.send(sent.buffer(), next);
  EXPECT_EQ(both.launch(), TANDEM_OK) << me.error.text;
  const int got = received.value();
  EXPECT_EQ(both.finish(), TANDEM_OK) << me.error.text;
  return got;
}

}  // namespace tandem::test
