// What is done with batches, and with operations that have been started.
#include <fmt/format.h>
#include <tandem.h>

#include <chrono>
#include <exception>

#include "call_batch.hpp"
#include "operation.hpp"
#include "status.hpp"

namespace tandem::c {
namespace {

void require_started(const tandem_op& op, const char* name) {
  if (!op.state->is_in_batch()) return;
  throw error(errc::bad_input,
              fmt::format("{}: the operation has not started: its batch was not launched", name),
              "call tandem_batch_launch before");
}

tandem_status outcome_of(const operation_state& op, tandem_error* failed) {
  if (!op.is_done()) return TANDEM_IN_PROGRESS;
  if (op.failure()) return report(op.failure(), failed);
  return TANDEM_OK;
}

}  // namespace
}  // namespace tandem::c

using namespace tandem::c;

tandem_batch* tandem_batch_create(void) {
  return new tandem_batch;
}

tandem_status tandem_batch_launch(tandem_batch* batch, tandem_error* error) {
  return guarded(error, [&] {
    require(batch, "tandem_batch_launch", "batch");
    batch->operations.launch();
  });
}

void tandem_batch_destroy(tandem_batch* batch) {
  delete batch;
}

tandem_status tandem_op_test(tandem_op* op, tandem_error* error) {
  tandem_status status = TANDEM_OK;
  const tandem_status failed = guarded(error, [&] {
    require(op, "tandem_op_test", "op");
    op->state->loop().require_here();
    if (!op->state->is_done()) op->state->poll();
    status = outcome_of(*op->state, error);
  });
  return failed != TANDEM_OK ? failed : status;
}

tandem_status tandem_op_wait(tandem_op* op, int64_t timeout_ms, tandem_error* error) {
  tandem_status status = TANDEM_OK;
  const tandem_status failed = guarded(error, [&] {
    require(op, "tandem_op_wait", "op");
    op->state->loop().require_here();
    require_started(*op, "tandem_op_wait");
    op->state->wait(timeout_ms < 0
                        ? progress::time_point::max()
                        : std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms));
    status = outcome_of(*op->state, error);
  });
  return failed != TANDEM_OK ? failed : status;
}

tandem_status tandem_op_wait_stream(tandem_op* op, void* stream, tandem_error* error) {
  return guarded(error, [&] {
    require(op, "tandem_op_wait_stream", "op");
    op->state->loop().require_here();
    require_started(*op, "tandem_op_wait_stream");
    op->state->wait_on(stream);
    if (op->state->is_done() && op->state->failure()) std::rethrow_exception(op->state->failure());
  });
}

int32_t tandem_op_streams_can_wait(const tandem_op* op) {
  return op->state->streams_can_wait() ? 1 : 0;
}

size_t tandem_op_bytes(const tandem_op* op) {
  return op->bytes();
}

int32_t tandem_op_source(const tandem_op* op) {
  return op->source();
}

void tandem_op_on_complete(tandem_op* op, tandem_op_function done, void* context) {
  op->state->on_complete([op, done, context] { done(context, op); });
}

void tandem_op_cancel(tandem_op* op) {
  if (op == nullptr || !op->state->loop().is_here()) return;
  op->state->loop().submit([state = op->state] { state->cancel(); });
}

void tandem_op_release(tandem_op* op) {
  delete op;
}
