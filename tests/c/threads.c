/* Several threads use one job: each its own communicator, all of them the same one, and functions that are called when
   an operation is complete. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"

enum { threads = 4, calls = 100 };

static tandem_comm* all;
static int n;

static void* in_own_group(void* group) {
  tandem_error error = TANDEM_ERROR_INIT;
  const tandem_reduction sum = {TANDEM_INT64, TANDEM_SUM, 1};
  for (int64_t i = 0; i < calls; ++i) {
    int64_t value = i;
    const tandem_buffer data = {&value, sizeof value, TANDEM_HOST, 0};
    tandem_op* op = NULL;
    OK(tandem_all_reduce(group, data, data, sum, NULL, &op, &error), error);
    finish(op);
    CHECK(value == n * i);
  }
  return NULL;
}

/* Messages of a thread have its own tag. */
static void* by_own_tag(void* number) {
  tandem_error error = TANDEM_ERROR_INIT;
  const int tag = *(const int*)number;
  const int me = tandem_comm_rank(all);
  for (int i = 0; i < calls; ++i) {
    int sent[2] = {i, tag};
    int received[2] = {0, 0};
    tandem_op* out = NULL;
    tandem_op* in = NULL;
    OK(tandem_send(all, HOST(sent), (me + 1) % n, tag, NULL, &out, &error), error);
    OK(tandem_recv(all, HOST(received), (me + n - 1) % n, tag, NULL, &in, &error), error);
    if (i % 2 == 0) {
      while (tandem_op_test(in, &error) == TANDEM_IN_PROGRESS) {
      }
    }
    finish(in);
    finish(out);
    CHECK(received[0] == i && received[1] == tag);
  }
  return NULL;
}

static atomic_int completed;

static void count(void* context, tandem_op* op) {
  tandem_error error = TANDEM_ERROR_INIT;
  CHECK(tandem_op_test(op, &error) == TANDEM_OK);
  CHECK(*(int*)context == n);
  if (atomic_fetch_add(&completed, 1) == 0) { /* it may call Tandem, and wait */
    int value = tandem_comm_rank(all);
    int received = -1;
    const tandem_buffer from = {&value, sizeof value, TANDEM_HOST, 0};
    const tandem_buffer into = {&received, sizeof received, TANDEM_HOST, 0};
    tandem_op* out = NULL;
    tandem_op* in = NULL;
    OK(tandem_send(all, from, (value + 1) % n, 100, NULL, &out, &error), error);
    OK(tandem_recv(all, into, (value + n - 1) % n, 100, NULL, &in, &error), error);
    finish(in);
    finish(out);
    CHECK(received == (value + n - 1) % n);
  }
  tandem_op_release(op);
}

int main(void) {
  tandem_error error = TANDEM_ERROR_INIT;
  tandem_job_options options = TANDEM_JOB_OPTIONS_INIT;
  tandem_job* job = NULL;
  OK(tandem_job_create(&options, &job, &error), error);
  all = tandem_job_world(job);
  n = tandem_comm_size(all);

  pthread_t started[2 * threads];
  tandem_comm* groups[threads];
  int tags[threads];
  for (int t = 0; t < threads; ++t) {
    OK(tandem_comm_split(all, 0, 0, &groups[t], &error), error);
    tags[t] = t;
    CHECK(pthread_create(&started[t], NULL, in_own_group, groups[t]) == 0);
    CHECK(pthread_create(&started[threads + t], NULL, by_own_tag, &tags[t]) == 0);
  }
  for (int t = 0; t < 2 * threads; ++t) CHECK(pthread_join(started[t], NULL) == 0);
  for (int t = 0; t < threads; ++t) tandem_comm_destroy(groups[t]);

  static int values[calls];
  const tandem_reduction sum = {TANDEM_INT32, TANDEM_SUM, 1};
  for (int i = 0; i < calls; ++i) {
    values[i] = 1;
    tandem_op* op = NULL;
    OK(tandem_all_reduce(all, HOST_PART(values, i, 1), HOST_PART(values, i, 1), sum, NULL, &op, &error), error);
    tandem_op_on_complete(op, count, &values[i]);
  }
  while (atomic_load(&completed) < calls) sched_yield();
  tandem_op* op = NULL;
  OK(tandem_barrier(all, NULL, &op, &error), error);
  finish(op);
  tandem_job_destroy(job);
  printf("threads: all as expected\n");
  return 0;
}
