/* Jobs whose ranks meet through a store of the program's: two in turn, a lost rank, and what goes wrong. Every rank is a
   child of this process, so it needs no launcher. */
#include <sys/wait.h>

#include "check.h"
#include "file_store.h"

enum { ranks = 3 };

static char folder[] = "/tmp/tandem-c-store-XXXXXX";

static tandem_job_options options_of(const tandem_store* store, int rank, const char* name) {
  tandem_job_options options = TANDEM_JOB_OPTIONS_INIT;
  options.rank = rank;
  options.size = ranks;
  options.store = store;
  options.name = name;
  options.meet_timeout_ms = 20000;
  return options;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int32_t sum_of(tandem_comm* comm, int32_t value, tandem_status* status, tandem_error* error) {
  const tandem_buffer data = {&value, sizeof value, TANDEM_HOST, 0};
  const tandem_reduction sum = {TANDEM_INT32, TANDEM_SUM, 1};
  tandem_op* op = NULL;
  *status = tandem_all_reduce(comm, data, data, sum, NULL, &op, error);
  if (*status == TANDEM_OK) *status = tandem_op_wait(op, 20000, error);
  tandem_op_release(op);
  return value;
}

enum { was_late = 9, attempts = 5 };
static int attempt;

/* A rank of two jobs, the second after the first has lost a rank, which a busy machine may notice late. */
static int rank_of_two_jobs(int rank) {
  char first[16], second[16];
  snprintf(first, sizeof first, "first%d", attempt);
  snprintf(second, sizeof second, "second%d", attempt);
  tandem_error error = TANDEM_ERROR_INIT;
  const tandem_store store = file_store(folder);
  tandem_job_options options = options_of(&store, rank, first);
  tandem_job* job = NULL;
  tandem_status status = TANDEM_OK;
  OK(tandem_job_create(&options, &job, &error), error);
  CHECK(sum_of(tandem_job_world(job), rank, &status, &error) == 3 && status == TANDEM_OK);

  const double begun = seconds();
  if (rank == 1) _exit(0); /* without a word */
  while (status == TANDEM_OK) sum_of(tandem_job_world(job), 1, &status, &error);
  CHECK(status == TANDEM_ERR_PEER_LOST);
  CHECK(error.peer == 1);
  CHECK(strstr(error.text, "rank 1") != NULL);
  const int is_late = seconds() - begun >= 2;
  FAILS(tandem_comm_state(tandem_job_world(job), &error), error, TANDEM_ERR_PEER_LOST, "rank 1");
  tandem_job_destroy(job);

  options = options_of(&store, rank / 2, second);
  options.size = 2;
  OK(tandem_job_create(&options, &job, &error), error);
  CHECK(sum_of(tandem_job_world(job), 10, &status, &error) == 20 && status == TANDEM_OK);
  tandem_job_destroy(job);
  return is_late ? was_late : 0;
}

static int refuse(void* context, const char* key, const void* value, size_t bytes) {
  (void)context, (void)key, (void)value, (void)bytes;
  return 1;
}

static int mistakes(void) {
  tandem_error error = TANDEM_ERROR_INIT;
  tandem_store store = file_store(folder);
  tandem_job* job = (tandem_job*)&store;
  tandem_job_options options = options_of(&store, 0, "alone");
  options.meet_timeout_ms = 100;
  FAILS(tandem_job_create(&options, &job, &error), error, TANDEM_ERR_RANK_MISSING, "rank 1 did not join within");
  CHECK(job == NULL);
  options.name = "versions"; /* rank 1 has one that does not say which */
  CHECK(set_file(folder, "versions/host/1", "a", 1) == 0);
  CHECK(set_file(folder, "versions/host/2", "a\t9.9", 5) == 0);
  FAILS(tandem_job_create(&options, &job, &error), error, TANDEM_ERR_VERSION_MISMATCH, "rank 1 has Tandem of an older version");
  CHECK(set_file(folder, "versions/host/1", "a\t9.9", 5) == 0);
  FAILS(tandem_job_create(&options, &job, &error), error, TANDEM_ERR_VERSION_MISMATCH, "rank 1 has Tandem 9.9, this rank ");
  options.rank = 3;
  FAILS(tandem_job_create(&options, &job, &error), error, TANDEM_ERR_BAD_INPUT, "rank 3 of 3");
  options.rank = 0;
  const char* const unknown[] = {"eager-byte", "1K", NULL};
  options.settings = unknown;
  FAILS(tandem_job_create(&options, &job, &error), error, TANDEM_ERR_BAD_OPTION, "eager-bytes");
  options.settings = NULL;
  store.set = refuse;
  FAILS(tandem_job_create(&options, &job, &error), error, TANDEM_ERR_BAD_INPUT, "could not set");
  store.set = NULL;
  FAILS(tandem_job_create(&options, &job, &error), error, TANDEM_ERR_BAD_INPUT, "no function set");
  options.store = NULL;
  FAILS(tandem_job_create(&options, &job, &error), error, TANDEM_ERR_BAD_INPUT, "store is NULL");
  FAILS(tandem_job_create(NULL, &job, &error), error, TANDEM_ERR_BAD_INPUT, "options is NULL");
  options.size = 0;
  FAILS(tandem_job_create(&options, &job, &error), error, TANDEM_ERR_BAD_INPUT, "launcher");
  tandem_error small = TANDEM_ERROR_INIT; /* of an older version: without the members after `code` */
  small.struct_bytes = offsetof(tandem_error, rank);
  small.rank = 77;
  CHECK(tandem_job_create(NULL, &job, &small) == TANDEM_ERR_BAD_INPUT);
  CHECK(small.code == TANDEM_ERR_BAD_INPUT && small.rank == 77 && small.text[0] == '\0');
  CHECK(tandem_job_create(NULL, &job, NULL) == TANDEM_ERR_BAD_INPUT);
  CHECK(tandem_abi_version() == TANDEM_ABI_VERSION);
  CHECK(strcmp(tandem_status_name(TANDEM_OK), "ok") == 0);
  return 0;
}

/* A child of a rank cannot use the job, and does not end it. */
static int rank_that_forks(int rank) {
  tandem_error error = TANDEM_ERROR_INIT;
  const tandem_store store = file_store(folder);
  tandem_job_options options = options_of(&store, rank, "forks");
  tandem_job* job = NULL;
  OK(tandem_job_create(&options, &job, &error), error);
  const pid_t child = fork();
  if (child == 0) {
    tandem_op* op = NULL;
    FAILS(tandem_barrier(tandem_job_world(job), NULL, &op, &error), error, TANDEM_ERR_USED_AFTER_FORK, "");
    tandem_job* other = NULL;
    FAILS(tandem_job_create(&options, &other, &error), error, TANDEM_ERR_USED_AFTER_FORK, "");
    tandem_job_destroy(job);
    _exit(0);
  }
  int ended = -1;
  CHECK(waitpid(child, &ended, 0) == child && ended == 0);
  tandem_status status = TANDEM_OK;
  CHECK(sum_of(tandem_job_world(job), 1, &status, &error) == ranks && status == TANDEM_OK);
  tandem_job_destroy(job);
  return 0;
}

/* Whether none was late. */
static int run_ranks(int (*body)(int rank)) {
  int is_in_time = 1;
  pid_t children[ranks];
  for (int rank = 0; rank < ranks; ++rank) {
    children[rank] = fork();
    if (children[rank] == 0) exit(body(rank));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int ended = -1;
    CHECK(waitpid(children[rank], &ended, 0) == children[rank]);
    const int is_late = WIFEXITED(ended) && WEXITSTATUS(ended) == was_late;
    CHECK(ended == 0 || is_late);
    if (is_late) is_in_time = 0;
  }
  return is_in_time;
}

static int once(int rank) { return rank == 0 ? mistakes() : 0; }

int main(void) {
  unsetenv("TANDEM_RANK");
  CHECK(mkdtemp(folder) != NULL);
  CHECK(run_ranks(once));
  while (!run_ranks(rank_of_two_jobs)) CHECK(++attempt < attempts);
  CHECK(run_ranks(rank_that_forks));
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(system(command) == 0);
  printf("jobs through a store: all as expected\n");
  return 0;
}
