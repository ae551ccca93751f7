/* Every operation of the C interface, between the ranks of a launcher. */
#include "check.h"

enum { max_ranks = 8 };

static tandem_error error = TANDEM_ERROR_INIT;
static tandem_comm* all;
static int me;
static int n;

static const tandem_reduction sum_of_ints = {TANDEM_INT32, TANDEM_SUM, 1};

static void reductions(void) {
  int32_t data[3] = {me, 10 * me, 1};
  int32_t result[3] = {0, 0, 0};
  tandem_op* op = NULL;
  OK(tandem_all_reduce(all, HOST(data), HOST(result), sum_of_ints, NULL, &op, &error), error);
  finish(op);
  CHECK(result[0] == n * (n - 1) / 2 && result[1] == 10 * result[0] && result[2] == n);
  CHECK(data[2] == 1);

  const int root = n - 1;
  result[2] = -1;
  OK(tandem_reduce(all, HOST(data), HOST(result), sum_of_ints, root, NULL, &op, &error), error);
  finish(op);
  CHECK(result[2] == (me == root ? n : -1));

  float scaled = 2;
  const tandem_reduction scale = {TANDEM_FLOAT32, TANDEM_PREMULTIPLIED_SUM, 0.5};
  const tandem_buffer one = {&scaled, sizeof scaled, TANDEM_HOST, 0};
  OK(tandem_all_reduce(all, one, one, scale, NULL, &op, &error), error);
  finish(op);
  CHECK(scaled == (float)n);

  int32_t blocks[max_ranks];
  for (int r = 0; r < n; ++r) blocks[r] = me + r;
  int32_t mine = -1;
  const tandem_buffer my_block = {&mine, sizeof mine, TANDEM_HOST, 0};
  OK(tandem_reduce_scatter(all, HOST_PART(blocks, 0, (size_t)n), my_block, NULL, sum_of_ints, NULL, &op, &error), error);
  finish(op);
  CHECK(mine == n * (n - 1) / 2 + n * me);
}

static void copies(void) {
  tandem_op* op = NULL;
  OK(tandem_barrier(all, NULL, &op, &error), error);
  finish(op);

  int32_t data[2] = {me, -me};
  if (me == 1 % n) data[0] = 77;
  OK(tandem_broadcast(all, HOST(data), 1 % n, NULL, &op, &error), error);
  finish(op);
  CHECK(data[0] == 77);

  int32_t mine = 100 + me;
  const tandem_buffer my_block = {&mine, sizeof mine, TANDEM_HOST, 0};
  int32_t gathered[max_ranks] = {0};
  OK(tandem_all_gather(all, my_block, HOST_PART(gathered, 0, (size_t)n), NULL, NULL, &op, &error), error);
  finish(op);
  for (int r = 0; r < n; ++r) CHECK(gathered[r] == 100 + r);

  memset(gathered, 0, sizeof gathered);
  OK(tandem_gather(all, my_block, HOST_PART(gathered, 0, (size_t)n), NULL, 0, NULL, &op, &error), error);
  finish(op);
  for (int r = 0; r < n; ++r) CHECK(gathered[r] == (me == 0 ? 100 + r : 0));

  for (int r = 0; r < n; ++r) gathered[r] = 200 + r;
  OK(tandem_scatter(all, HOST_PART(gathered, 0, (size_t)n), my_block, NULL, 0, NULL, &op, &error), error);
  finish(op);
  CHECK(mine == 200 + me);

  int32_t from[max_ranks];
  int32_t into[max_ranks];
  for (int r = 0; r < n; ++r) from[r] = 10 * me + r;
  OK(tandem_all_to_all(all, HOST_PART(from, 0, (size_t)n), NULL, HOST_PART(into, 0, (size_t)n), NULL, NULL, &op, &error), error);
  finish(op);
  for (int r = 0; r < n; ++r) CHECK(into[r] == 10 * r + me);
}

/* Blocks of different lengths: rank r contributes r elements. */
static void uneven(void) {
  tandem_op* op = NULL;
  size_t bytes[max_ranks];
  size_t total = 0;
  for (int r = 0; r < n; ++r) {
    bytes[r] = (size_t)r * sizeof(int32_t);
    total += (size_t)r;
  }
  int32_t mine[max_ranks];
  int32_t everything[max_ranks * max_ranks];
  for (int i = 0; i < me; ++i) mine[i] = 1000 * me + i;
  OK(tandem_all_gather(all, HOST_PART(mine, 0, (size_t)me), HOST_PART(everything, 0, total), bytes, NULL, &op, &error), error);
  finish(op);
  size_t at = 0;
  for (int r = 0; r < n; ++r) {
    for (int i = 0; i < r; ++i) CHECK(everything[at++] == 1000 * r + i);
  }

  for (size_t i = 0; i < total; ++i) everything[i] = 1;
  OK(tandem_reduce_scatter(all, HOST_PART(everything, 0, total), HOST_PART(mine, 0, (size_t)me), bytes, sum_of_ints, NULL, &op, &error), error);
  finish(op);
  for (int i = 0; i < me; ++i) CHECK(mine[i] == n);
}

static void messages(void) {
  tandem_op* out = NULL;
  tandem_op* in = NULL;
  const int next = (me + 1) % n;
  const int previous = (me + n - 1) % n;
  int32_t sent[2] = {me, 42};
  int32_t received[4] = {-1, -1, -1, -1};
  OK(tandem_recv(all, HOST(received), previous, 5, NULL, &in, &error), error);
  OK(tandem_send(all, HOST(sent), next, 5, NULL, &out, &error), error);
  finish(out);
  OK(tandem_op_wait(in, -1, &error), error);
  CHECK(tandem_op_bytes(in) == sizeof sent && tandem_op_source(in) == previous);
  CHECK(received[0] == previous && received[1] == 42 && received[2] == -1);
  tandem_op_release(in);

  /* Rank 0 receives from any, each rank's message once; those that arrive meanwhile are kept. */
  if (me != 0) {
    OK(tandem_send(all, HOST(sent), 0, 6, NULL, &out, &error), error);
    finish(out);
  } else {
    int seen[max_ranks] = {1};
    for (int i = 1; i < n; ++i) {
      OK(tandem_recv(all, HOST(received), TANDEM_ANY_SOURCE, 6, NULL, &in, &error), error);
      OK(tandem_op_wait(in, -1, &error), error);
      const int source = tandem_op_source(in);
      CHECK(source == received[0] && !seen[source]++);
      tandem_op_release(in);
    }
  }
}

/* Messages of a rank to itself, received before and after they are sent; one receive in between is cancelled. */
static void own_messages(void) {
  int32_t received[3] = {-1, -1, -1};
  tandem_op* in[4];
  tandem_op* out = NULL;
  for (int i = 0; i < 3; ++i) OK(tandem_recv(all, HOST_PART(received, i % 2, 1), me, 8, NULL, &in[i], &error), error);
  tandem_op_cancel(in[1]);
  FAILS(tandem_op_wait(in[1], -1, &error), error, TANDEM_ERR_CANCELLED, "");
  tandem_op_release(in[1]);
  for (int32_t i = 0; i < 3; ++i) {
    const int32_t value = 50 + i;
    OK(tandem_send(all, (tandem_buffer){(void*)&value, sizeof value, TANDEM_HOST, 0}, me, 8, NULL, &out, &error), error);
    finish(out);
  }
  finish(in[0]);
  finish(in[2]);
  CHECK(received[0] == 51 && received[1] == -1);
  OK(tandem_recv(all, HOST_PART(received, 2, 1), me, 8, NULL, &in[3], &error), error);
  finish(in[3]);
  CHECK(received[2] == 52);
}

/* More calls at once than a communicator allows to be in progress, released before they are complete. */
static void many(void) {
  enum { calls = 200 };
  static int32_t data[calls];
  tandem_op* op = NULL;
  for (int i = 0; i < calls; ++i) {
    data[i] = i;
    OK(tandem_all_reduce(all, HOST_PART(data, i, 1), HOST_PART(data, i, 1), sum_of_ints, NULL, &op, &error), error);
    if (i + 1 < calls) tandem_op_release(op);
  }
  OK(tandem_op_wait(op, -1, &error), error);
  tandem_op_release(op);
  OK(tandem_barrier(all, NULL, &op, &error), error);
  finish(op);
  for (int i = 0; i < calls; ++i) CHECK(data[i] == i * n);
}

static void groups(void) {
  tandem_op* op = NULL;
  tandem_comm* part = NULL;
  OK(tandem_comm_split(all, me % 2, -me, &part, &error), error);
  CHECK(tandem_comm_size(part) == (n + 1 - me % 2) / 2);
  int32_t one = 1;
  const tandem_buffer data = {&one, sizeof one, TANDEM_HOST, 0};
  OK(tandem_all_reduce(part, data, data, sum_of_ints, NULL, &op, &error), error);
  finish(op);
  CHECK(one == tandem_comm_size(part));
  tandem_comm_destroy(part);

  OK(tandem_comm_split(all, -1, 0, &part, &error), error);
  CHECK(part == NULL);

  for (int round = 0; round < 50; ++round) {
    if (me >= 2) break;
    const int32_t members[2] = {1, 0};
    OK(tandem_comm_create_group(all, members, 2, "pair", &part, &error), error);
    CHECK(tandem_comm_rank(part) == 1 - me);
    one = 1;
    OK(tandem_all_reduce(part, data, data, sum_of_ints, NULL, &op, &error), error);
    finish(op);
    CHECK(one == 2);
    tandem_comm_destroy(part);
  }
}

static void mistakes(void) {
  tandem_op* op = (tandem_op*)&op;
  int32_t data[2] = {0, 0};
  const tandem_reduction unknown = {77, TANDEM_SUM, 1};
  FAILS(tandem_send(all, HOST(data), 0, 70000, NULL, &op, &error), error, TANDEM_ERR_BAD_INPUT, "tag 70000");
  CHECK(op == NULL);
  FAILS(tandem_send(NULL, HOST(data), 0, 0, NULL, &op, &error), error, TANDEM_ERR_BAD_INPUT, "comm is NULL");
  FAILS(tandem_all_reduce(all, HOST(data), HOST(data), sum_of_ints, NULL, NULL, &error), error, TANDEM_ERR_BAD_INPUT, "op is NULL");
  OK(tandem_all_reduce(all, HOST(data), HOST(data), unknown, NULL, &op, &error), error);
  FAILS(tandem_op_wait(op, -1, &error), error, TANDEM_ERR_BAD_INPUT, "type");
  tandem_op_release(op);
  OK(tandem_recv(all, HOST(data), n, 0, NULL, &op, &error), error);
  FAILS(tandem_op_wait(op, -1, &error), error, TANDEM_ERR_BAD_INPUT, "no rank");
  tandem_op_release(op);
  FAILS(tandem_comm_create_group(all, (const int32_t[]){(me + 1) % n}, 1, "other", &(tandem_comm*){NULL}, &error), error,
        TANDEM_ERR_BAD_INPUT, "is not a member");

  /* A message that does not come: the operation fails, and the communicator is still usable. */
  tandem_call quickly = TANDEM_CALL_INIT;
  quickly.timeout_ms = 50;
  OK(tandem_recv(all, HOST(data), (me + 1) % n, 9, &quickly, &op, &error), error);
  FAILS(tandem_op_wait(op, -1, &error), error, TANDEM_ERR_TIMED_OUT, "recv");
  CHECK(error.peer == (me + 1) % n);
  tandem_op_release(op);
  OK(tandem_recv(all, HOST(data), me, 9, &quickly, &op, &error), error);
  FAILS(tandem_op_wait(op, -1, &error), error, TANDEM_ERR_TIMED_OUT, "sent itself no message");
  tandem_op_release(op);
  OK(tandem_recv(all, HOST(data), (me + 1) % n, 9, NULL, &op, &error), error);
  CHECK(tandem_op_wait(op, 1, &error) == TANDEM_IN_PROGRESS);
  CHECK(tandem_op_test(op, &error) == TANDEM_IN_PROGRESS);
  tandem_op_cancel(op);
  FAILS(tandem_op_wait(op, -1, &error), error, TANDEM_ERR_CANCELLED, "");
  tandem_op_release(op);
  OK(tandem_comm_state(all, &error), error);
}

int main(void) {
  tandem_job_options options = TANDEM_JOB_OPTIONS_INIT;
  tandem_job* job = NULL;
  OK(tandem_job_create(&options, &job, &error), error);
  all = tandem_job_world(job);
  me = tandem_comm_rank(all);
  n = tandem_comm_size(all);
  CHECK(n >= 2 && n <= max_ranks && me == tandem_job_rank(job) && n == tandem_job_size(job));
  reductions();
  copies();
  uneven();
  messages();
  own_messages();
  many();
  groups();
  mistakes();
  tandem_op* op = NULL;
  OK(tandem_barrier(all, NULL, &op, &error), error);
  finish(op);
  tandem_job_destroy(job);
  printf("rank %d: every operation\n", me);
  return 0;
}
