/*
 * Tandem's C interface: jobs, communicators and operations for programs in other languages, and for
 * programs without coroutines. README.md of this folder has an overview, and tests/c a program for
 * each part. tandem_pipelines.h has pipeline schedules, which need no job.
 *
 * Threads       Every function may be called from any thread, except where it says otherwise. Calls on
 *               one communicator are matched by the order in which they start: threads that share one
 *               agree on an order. One progress thread for each process carries on what has been
 *               started; a thread that waits runs the event loop itself, so that a blocking call needs
 *               no switch between threads.
 * Buffers       A buffer that was given to an operation belongs to it until the operation is complete.
 *               Releasing the handle of an operation does not end that.
 * Errors        A function that can fail returns a tandem_status, which is TANDEM_OK or one of the
 *               TANDEM_ERR_ codes, and fills *error where that is not NULL. An error changes nothing,
 *               except that one which ends a collective ends its communicator, and is reported to
 *               every rank of the job.
 * Structures    The member struct_bytes is set by the caller (the _INIT macros do) and says which
 *               members exist. Members that a later version adds are at the end.
 * fork()        A child cannot use the objects of its parent: TANDEM_ERR_USED_AFTER_FORK.
 */
#ifndef TANDEM_H
#define TANDEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* Incremented when a function or a structure changes incompatibly. */
#define TANDEM_ABI_VERSION 1
/* The TANDEM_ABI_VERSION that the library was built with. */
int tandem_abi_version(void);
/* "0.1.0 (commit 0123456789ab)". */
const char* tandem_version(void);

typedef struct tandem_job tandem_job;   /* this process as a rank of a job */
typedef struct tandem_comm tandem_comm; /* a group of ranks: MPI's communicator */
typedef struct tandem_op tandem_op;     /* an operation that was started: MPI's request */
typedef struct tandem_batch tandem_batch; /* operations that are started together */

/* ---- Errors ----------------------------------------------------------------------------------- */

/* The codes of tandem::errc; values are never reused. */
typedef enum tandem_status {
  TANDEM_OK = 0,
  TANDEM_IN_PROGRESS = -1, /* tandem_op_test, tandem_op_wait: not complete yet */
  TANDEM_ERR_CHANNEL_CLOSED = 1,
  TANDEM_ERR_PEER_CLOSED = 2,
  TANDEM_ERR_PEER_LOST = 3,
  TANDEM_ERR_MESSAGE_TRUNCATED = 4,
  TANDEM_ERR_MESSAGE_CANCELLED = 5,
  TANDEM_ERR_TIMED_OUT = 6,
  TANDEM_ERR_PROTOCOL_VIOLATION = 7,
  TANDEM_ERR_VERSION_MISMATCH = 8,
  TANDEM_ERR_NOT_TANDEM = 9,
  TANDEM_ERR_UNSUPPORTED_MEMORY = 10,
  TANDEM_ERR_LIMIT_EXCEEDED = 11,
  TANDEM_ERR_RANK_MISSING = 12,
  TANDEM_ERR_RANK_TAKEN = 13,
  TANDEM_ERR_SIZE_MISMATCH = 14,
  TANDEM_ERR_ADDRESS_IN_USE = 15,
  TANDEM_ERR_UNREACHABLE = 16,
  TANDEM_ERR_BAD_OPTION = 17,
  TANDEM_ERR_BAD_INPUT = 18,
  TANDEM_ERR_CALL_MISMATCH = 19,
  TANDEM_ERR_JOB_MISMATCH = 20,
  TANDEM_ERR_NOT_TRUSTED = 21,
  TANDEM_ERR_DEVICE_FAILED = 22,
  TANDEM_ERR_USED_AFTER_FORK = 23,
  TANDEM_ERR_WRONG_THREAD = 24, /* cannot occur: the library synchronises the threads of its callers */
  TANDEM_ERR_CANCELLED = 1000, /* by tandem_op_cancel, tandem_comm_abort or tandem_job_destroy */
  TANDEM_ERR_SYSTEM = 1001     /* an error of the operating system; the text names it */
} tandem_status;

typedef struct tandem_error {
  size_t struct_bytes;
  int32_t code;        /* a tandem_status */
  int32_t rank;        /* the rank that reports, -1: unknown */
  int32_t peer;        /* the other rank, or the one that caused it; -1: unknown */
  int64_t bytes_done;  /* transferred before the error; -1: unknown */
  int64_t bytes_total; /* to be transferred; -1: unknown */
  char rail[128];      /* the connection: "tcp 127.0.0.1:41234" */
  char phase[128];     /* "all_reduce, ring step 2 of 6, recv: waiting for a message" */
  char text[1024];     /* all of it in one line, with what to do */
} tandem_error;
#define TANDEM_ERROR_INIT \
  { sizeof(tandem_error), 0, -1, -1, -1, -1, "", "", "" }

/* "timed_out"; the name of a code. */
const char* tandem_status_name(int status);

/* ---- The log ---------------------------------------------------------------------------------- */

/* level: 0 debug, 1 info, 2 warning, 3 error. Called on any thread; must not call Tandem. */
typedef void (*tandem_log_function)(void* context, int level, const char* component, const char* text);
/* Replaces the sink of the process; NULL: discard, as it is at first. */
void tandem_set_log(tandem_log_function sink, void* context, int min_level);
/* Logs to standard error, from the level of TANDEM_LOG on (default: warning). */
void tandem_log_to_stderr(void);

/* ---- Jobs ------------------------------------------------------------------------------------- */

/*
 * A key-value store of the caller's, through which the ranks of a job find each other: the address
 * of rank 0, and a secret that it makes where ranks run on several hosts. A process that can
 * read the store can therefore join the job. Called by tandem_job_create only, on its thread.
 */
typedef struct tandem_store {
  size_t struct_bytes;
  void* context;
  /* Sets a key. 0 on success. */
  int (*set)(void* context, const char* key, const void* value, size_t bytes);
  /* Waits up to timeout_ms until the key is set, copies its value to `value`, at most *bytes, and
     sets *bytes to its length. 0 on success. */
  int (*get)(void* context, const char* key, void* value, size_t* bytes, int64_t timeout_ms);
} tandem_store;

typedef struct tandem_job_options {
  size_t struct_bytes;
  /* This process's rank and the number of ranks. size 0: from the launcher's variables (torchrun,
     tandem run, mpirun, srun), which then also give the address of rank 0; `store` is NULL then. */
  int32_t rank;
  int32_t size;
  const tandem_store* store;
  const char* name; /* of the job, in errors and in the keys of the store; NULL: "tandem" */
  int64_t meet_timeout_ms;      /* until all ranks have joined; 0: the setting meet-timeout */
  int64_t operation_timeout_ms; /* of an operation; 0: the setting operation-timeout; <0: none */
  /* Settings by name, beside TANDEM_ variables: "eager-bytes", "32K", NULL. `tandem options` lists
     them. NULL: none. */
  const char* const* settings;
  int32_t memory_kind; /* of most calls of this rank, for the plan: a tandem_memory_kind */
  int32_t device;
} tandem_job_options;
#define TANDEM_JOB_OPTIONS_INIT \
  { sizeof(tandem_job_options), 0, 0, NULL, NULL, 0, 0, NULL, 0, 0 }

/*
 * Joins the job and connects its ranks: by shared memory within a host, by rails or TCP between
 * hosts. Every rank calls it; it returns when all have.
 *
 * Errors  TANDEM_ERR_RANK_MISSING names the ranks that did not join; those of tandem::store::meet
 *         and tandem::make_communicator; TANDEM_ERR_BAD_INPUT: the store failed.
 */
tandem_status tandem_job_create(const tandem_job_options* options, tandem_job** job, tandem_error* error);
/*
 * Leaves the job in an orderly way, so that the others do not take this rank for lost. Operations
 * in progress end with TANDEM_ERR_CANCELLED; communicators are gone. Does not wait for other ranks.
 */
void tandem_job_destroy(tandem_job* job);
/* Ends the job on every rank with that reason, as an error of this rank. */
void tandem_job_abort(tandem_job* job, const char* reason);
int tandem_job_rank(const tandem_job* job);
int tandem_job_size(const tandem_job* job);
/* The communicator of all ranks. It belongs to the job. */
tandem_comm* tandem_job_world(tandem_job* job);

/* ---- Communicators ---------------------------------------------------------------------------- */

/*
 * The group of some ranks of `parent`, called by those ranks only, each with the same list. `name`
 * is the same on all of them; two groups with members in common that are made at the same time have
 * different names.
 */
tandem_status tandem_comm_create_group(tandem_comm* parent, const int32_t* ranks, size_t count,
                                       const char* name, tandem_comm** group, tandem_error* error);
/* As MPI_Comm_split: every rank of `parent` calls it. A negative colour: *part is NULL. */
tandem_status tandem_comm_split(tandem_comm* parent, int32_t colour, int32_t key, tandem_comm** part,
                                tandem_error* error);
/* Local. Operations in progress end with TANDEM_ERR_CANCELLED. */
void tandem_comm_destroy(tandem_comm* comm);
/* Ends the communicator, and the job, with that reason. */
void tandem_comm_abort(tandem_comm* comm, const char* reason);
int tandem_comm_rank(const tandem_comm* comm);
int tandem_comm_size(const tandem_comm* comm);
/* TANDEM_OK while the communicator is usable, else the error that has ended it. */
tandem_status tandem_comm_state(tandem_comm* comm, tandem_error* error);
/* What carries its calls, as text: "mixed channels". At most `bytes`, with the final zero. */
void tandem_comm_describe(tandem_comm* comm, char* text, size_t bytes);

/* ---- Operations ------------------------------------------------------------------------------- */

typedef enum tandem_memory_kind { TANDEM_HOST = 0, TANDEM_CUDA = 1, TANDEM_HIP = 2 } tandem_memory_kind;

typedef struct tandem_buffer {
  void* data; /* may be NULL for 0 bytes */
  size_t bytes;
  int32_t kind;   /* a tandem_memory_kind */
  int32_t device; /* ordinal among the devices of that kind */
} tandem_buffer;

/* The numbers of tandem::data_type. */
typedef enum tandem_type {
  TANDEM_FLOAT32 = 0,
  TANDEM_FLOAT64 = 1,
  TANDEM_INT32 = 2,
  TANDEM_INT64 = 3,
  TANDEM_INT8 = 4,
  TANDEM_INT16 = 5,
  TANDEM_UINT8 = 6,
  TANDEM_UINT16 = 7,
  TANDEM_UINT32 = 8,
  TANDEM_UINT64 = 9,
  TANDEM_FLOAT16 = 10,
  TANDEM_BFLOAT16 = 11,
  TANDEM_FLOAT8_E4M3 = 12,
  TANDEM_FLOAT8_E5M2 = 13
} tandem_type;

/* The numbers of tandem::reduce_op, which documents the arithmetic. */
typedef enum tandem_reduce_op {
  TANDEM_SUM = 0,
  TANDEM_PRODUCT = 1,
  TANDEM_MINIMUM = 2,
  TANDEM_MAXIMUM = 3,
  TANDEM_AVERAGE = 4,
  TANDEM_BAND = 5,
  TANDEM_BOR = 6,
  TANDEM_BXOR = 7,
  TANDEM_PREMULTIPLIED_SUM = 8
} tandem_reduce_op;

/* How elements are combined. */
typedef struct tandem_reduction {
  int32_t type;  /* a tandem_type */
  int32_t op;    /* a tandem_reduce_op */
  double factor; /* for TANDEM_PREMULTIPLIED_SUM only: of this rank's elements */
} tandem_reduction;

/* What an operation may be given beside its arguments; NULL: the defaults. */
typedef struct tandem_call {
  size_t struct_bytes;
  int64_t timeout_ms; /* 0: the job's; <0: none */
  /* The stream (CUstream, hipStream_t) that produces the contents of device buffers: the operation
     starts when it has reached this point. Used if has_stream is not 0; without, the contents are
     complete already. */
  void* stream;
  int32_t has_stream;
  tandem_batch* batch; /* the operation starts when this is launched; NULL: at once */
  /* Whether a stream may carry the operation out. 1: the one above, so that what is queued on it later
     waits until it is complete. It needs has_stream, and then tandem_op_wait_stream for that stream.
     With the setting stream-kernel-bytes a message and its receive are both such calls, or neither is,
     and have the same length. 2: another one, for a collective; with the setting stream-relay-bytes
     also for a message between GPUs that do not reach each other, of the same length as its receive.
     A collective is such a call on all ranks, all with memory of their devices, or on none. 3: as 2,
     and a vendor's library may use the one above, as with 1; other ranks may say 2.
     Messages between two ranks in one batch all have the same value. */
  int32_t in_stream;
} tandem_call;
#define TANDEM_CALL_INIT \
  { sizeof(tandem_call), 0, NULL, 0, NULL, 0 }

/*
 * Each of these starts an operation and returns a handle in *op, to be released. They never block.
 * Collectives of a communicator are started in the same order on all of its ranks; any number may be
 * in progress. Operations of point-to-point communication may be started in any order.
 *
 * "all" buffers hold one block for each rank, in rank order. In place means to pass the block inside
 * "all", or the same buffer twice. README of the collectives room: collectives/USE.md.
 */
/*
 * Operations of any communicators that start together: those that are called with it (tandem_call) do
 * not start until it is launched, then in the order of their calls, and what NCCL or RCCL carries out
 * of them is one launch: sends and receives do not wait for each other, in whatever order they are.
 * Messages that kernels on one stream (in_stream) carry out are complete together. Empty after the
 * launch, it can be used again. Operations are waited for after the launch. One thread at a time.
 */
tandem_batch* tandem_batch_create(void);
tandem_status tandem_batch_launch(tandem_batch* batch, tandem_error* error);
/* Operations that were not launched end with TANDEM_ERR_CANCELLED. NULL is ignored. */
void tandem_batch_destroy(tandem_batch* batch);

tandem_status tandem_barrier(tandem_comm* comm, const tandem_call* call, tandem_op** op, tandem_error* error);
tandem_status tandem_broadcast(tandem_comm* comm, tandem_buffer data, int32_t root, const tandem_call* call,
                               tandem_op** op, tandem_error* error);
tandem_status tandem_all_reduce(tandem_comm* comm, tandem_buffer data, tandem_buffer result,
                                tandem_reduction how, const tandem_call* call, tandem_op** op,
                                tandem_error* error);
/* `result` is used at the root only. */
tandem_status tandem_reduce(tandem_comm* comm, tandem_buffer data, tandem_buffer result, tandem_reduction how,
                            int32_t root, const tandem_call* call, tandem_op** op, tandem_error* error);
/* bytes_of_rank: the length of each rank's block; NULL: all are equal. Copied by the call. */
tandem_status tandem_all_gather(tandem_comm* comm, tandem_buffer mine, tandem_buffer all,
                                const size_t* bytes_of_rank, const tandem_call* call, tandem_op** op,
                                tandem_error* error);
tandem_status tandem_reduce_scatter(tandem_comm* comm, tandem_buffer all, tandem_buffer mine,
                                    const size_t* bytes_of_rank, tandem_reduction how,
                                    const tandem_call* call, tandem_op** op, tandem_error* error);
/* `all` is used at the root only, in gather and scatter. */
tandem_status tandem_gather(tandem_comm* comm, tandem_buffer mine, tandem_buffer all,
                            const size_t* bytes_of_rank, int32_t root, const tandem_call* call,
                            tandem_op** op, tandem_error* error);
tandem_status tandem_scatter(tandem_comm* comm, tandem_buffer all, tandem_buffer mine,
                             const size_t* bytes_of_rank, int32_t root, const tandem_call* call,
                             tandem_op** op, tandem_error* error);
/* sent, received: lengths by rank; both NULL: all blocks are equal. Not in place. */
tandem_status tandem_all_to_all(tandem_comm* comm, tandem_buffer from, const size_t* sent, tandem_buffer into,
                                const size_t* received, const tandem_call* call, tandem_op** op,
                                tandem_error* error);

#define TANDEM_MAX_TAG 65534
/*
 * tag: 0 to TANDEM_MAX_TAG. The k-th send to a rank with a tag matches its k-th receive from here with it; in a group
 * whose ranks all have GPUs, messages of device memory and of host memory are counted apart, with tag 0.
 */
tandem_status tandem_send(tandem_comm* comm, tandem_buffer message, int32_t to, int32_t tag,
                          const tandem_call* call, tandem_op** op, tandem_error* error);
#define TANDEM_ANY_SOURCE (-1)
/*
 * The message may be shorter than the buffer, except where NCCL or RCCL carries it. from may be TANDEM_ANY_SOURCE: the first message of any
 * rank with that tag; host memory only.
 */
tandem_status tandem_recv(tandem_comm* comm, tandem_buffer into, int32_t from, int32_t tag,
                          const tandem_call* call, tandem_op** op, tandem_error* error);

/* TANDEM_IN_PROGRESS, TANDEM_OK, or the error that ended it. Makes progress. */
tandem_status tandem_op_test(tandem_op* op, tandem_error* error);
/* Waits until it is complete, at most timeout_ms (<0: without limit; then TANDEM_IN_PROGRESS). */
tandem_status tandem_op_wait(tandem_op* op, int64_t timeout_ms, tandem_error* error);
/*
 * Work that is queued on the stream from now on waits until the operation is complete. A failure lets
 * the stream go on: tandem_op_test reports it.
 *
 * The caller does not wait for operations that NCCL or RCCL carries out, except for the first
 * collective of a communicator and the first message between two ranks, which initialise it. For
 * messages that copy engines carry out between other GPUs of a host, it waits until the peer has
 * called: at once for a receive, if no other operation needs this processor; it does not for messages
 * and collectives that kernels carry out (setting stream-kernel-bytes). Nor does the caller
 * wait for operations that go through pinned memory (settings stream-staging-bytes and
 * stream-relay-bytes), while no operation on device memory that channels carry is in progress; such an
 * operation, when it is started, first waits for those. For all others it does, unless the setting
 * stream-waits is 1: a driver that loads a kernel on its first use, or frees memory, waits for all
 * streams, and Tandem needs the driver to let them go on. With that setting it waits for the first of
 * a kind: of a function, type, peer and power of two of bytes.
 */
tandem_status tandem_op_wait_stream(tandem_op* op, void* stream, tandem_error* error);
/* 1: tandem_op_wait_stream would return at once, now and later; 0: it might have to wait, as is the
   case of an operation that channels carry. Any thread. */
int32_t tandem_op_streams_can_wait(const tandem_op* op);
/* After completion: the length of the message received. */
size_t tandem_op_bytes(const tandem_op* op);
/* After completion: the rank whose message was received; -1 for other operations. */
int32_t tandem_op_source(const tandem_op* op);
/*
 * Calls the function once when the operation is complete, or at once if it is: on a thread of Tandem
 * that does nothing else, so it may call Tandem and may block. At most one for each operation. The
 * handle must not be released before the call.
 */
typedef void (*tandem_op_function)(void* context, tandem_op* op);
void tandem_op_on_complete(tandem_op* op, tandem_op_function done, void* context);
/*
 * Requests that it ends with TANDEM_ERR_CANCELLED. A collective that is cancelled ends its communicator.
 * What NCCL or RCCL carries out is not cancelled: tandem_comm_abort.
 */
void tandem_op_cancel(tandem_op* op);
/* Gives the handle back, complete or not. NULL is ignored. */
void tandem_op_release(tandem_op* op);

#ifdef __cplusplus
}
#endif
#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#endif
