#pragma once

#include "c/device_bytes.hpp"
#include "c/device_job.hpp"

namespace tandem::test {

inline tandem_op* send(device_rank& me, const tandem_buffer& what, int to) {
  const tandem_call call = me.call();
  tandem_op* op = nullptr;
  EXPECT_EQ(tandem_send(me.world, what, to, 0, &call, &op, &me.error), TANDEM_OK) << me.error.text;
  return op;
}

inline tandem_op* receive(device_rank& me, const tandem_buffer& into, int from) {
  const tandem_call call = me.call();
  tandem_op* op = nullptr;
  EXPECT_EQ(tandem_recv(me.world, into, from, 0, &call, &op, &me.error), TANDEM_OK)
      << me.error.text;
  return op;
}

inline tandem_status wait_and_release(device_rank& me, tandem_op* op) {
  const tandem_status status = tandem_op_wait(op, 20000, &me.error);
  tandem_op_release(op);
  return status;
}

/// Both ranks have mapped the memory after that.
inline void exchange(device_rank& me, filled_bytes& sent, filled_bytes& received) {
  const int other = 1 - me.rank;
  sent.fill(100 + me.rank);
  tandem_op* const out = send(me, sent.buffer(), other);
  EXPECT_EQ(me.finish(receive(me, received.buffer(), other)), TANDEM_OK) << me.error.text;
  EXPECT_EQ(me.finish(out), TANDEM_OK) << me.error.text;
  EXPECT_EQ(received.value(), 100 + other);
}

}  // namespace tandem::test
