#include "c/device_job.hpp"

namespace tandem::test {
namespace {

TEST(OwnMessages, OnADevice) {
  device_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    const tandem_call call = me.call();
    const auto send = [&](const tandem_buffer& from) {
      tandem_op* op = nullptr;
      EXPECT_EQ(tandem_send(me.world, from, me.rank, 0, &call, &op, &me.error), TANDEM_OK);
      return op;
    };
    const auto receive = [&](const tandem_buffer& into) {
      tandem_op* op = nullptr;
      EXPECT_EQ(tandem_recv(me.world, into, me.rank, 0, &call, &op, &me.error), TANDEM_OK);
      return op;
    };
    device_numbers first(me, filled(7, 1)), second(me, filled(5, 2));
    device_numbers into(me, filled(7, -1)), then(me, filled(7, -1));
    // A receive may be posted before its message, and after it.
    tandem_op* const early = receive(into.buffer());
    tandem_op* const sends[] = {send(first.buffer()), send(second.buffer()), send(first.part(0, 0)),
                                send(first.buffer())};
    tandem_op* const late = receive(then.buffer());
    EXPECT_EQ(tandem_op_wait(late, 20000, &me.error), TANDEM_OK) << me.error.text;
    EXPECT_EQ(tandem_op_bytes(late), 5 * sizeof(float));
    EXPECT_EQ(tandem_op_source(late), me.rank);
    EXPECT_EQ(me.finish(early), TANDEM_OK) << me.error.text;
    EXPECT_EQ(me.finish(late), TANDEM_OK) << me.error.text;
    EXPECT_EQ(into.get(), filled(7, 1));
    EXPECT_EQ(then.get(), (std::vector<float>{2, 2, 2, 2, 2, -1, -1}));
    tandem_op* const empty = receive(then.part(0, 0));
    EXPECT_EQ(me.finish(empty), TANDEM_OK) << me.error.text;
    // Too long: the receive fails, the message is consumed.
    tandem_op* const small = receive(then.part(0, 2));
    EXPECT_EQ(tandem_op_wait(small, 20000, &me.error), TANDEM_ERR_MESSAGE_TRUNCATED);
    tandem_op_release(small);
    for (tandem_op* const each : sends) EXPECT_EQ(me.finish(each), TANDEM_OK) << me.error.text;
    // From host memory, and into it.
    std::vector<float> host = filled(7, 3);
    const tandem_buffer on_host{host.data(), host.size() * sizeof(float), TANDEM_HOST, 0};
    tandem_op* const up = send(on_host);
    tandem_op* const down = send(first.buffer());
    EXPECT_EQ(me.finish(receive(into.buffer())), TANDEM_OK) << me.error.text;
    tandem_op* const to_host = receive(on_host);
    EXPECT_EQ(tandem_op_wait(to_host, 20000, &me.error), TANDEM_OK) << me.error.text;
    tandem_op_release(to_host);
    EXPECT_EQ(me.finish(up), TANDEM_OK);
    EXPECT_EQ(me.finish(down), TANDEM_OK);
    EXPECT_EQ(into.get(), filled(7, 3));
    EXPECT_EQ(host, filled(7, 1));
    // A send that is given up is received by nobody.
    tandem_op* const given_up = send(second.buffer());
    tandem_op_cancel(given_up);
    EXPECT_NE(tandem_op_wait(given_up, 20000, &me.error), TANDEM_OK);
    tandem_op_release(given_up);
    tandem_op* const last = send(first.buffer());
    EXPECT_EQ(me.finish(receive(then.buffer())), TANDEM_OK) << me.error.text;
    EXPECT_EQ(me.finish(last), TANDEM_OK);
    EXPECT_EQ(then.get(), filled(7, 1));
  });
}

}  // namespace
}  // namespace tandem::test
