/*
 * Pipeline schedules, for programs that run the stages of a model themselves. They need no job, and
 * every function may be called from any thread. tandem.h documents errors and structures.
 */
#ifndef TANDEM_PIPELINES_H
#define TANDEM_PIPELINES_H

#include <tandem.h>

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* The numbers of tandem::pipeline_step::kind. A backward is both of its parts: the input part, which
   the previous stage waits for, and the weight part. */
typedef enum tandem_pipeline_work {
  TANDEM_FORWARD = 0,
  TANDEM_BACKWARD = 1,
  TANDEM_BACKWARD_INPUT = 2,
  TANDEM_BACKWARD_WEIGHTS = 3
} tandem_pipeline_work;

/* One computation of a rank. */
typedef struct tandem_pipeline_step {
  int32_t what;  /* a tandem_pipeline_work */
  int32_t chunk; /* of the rank's chunks, each of which is a stage of the model */
  int32_t micro_batch;
} tandem_pipeline_step;

/* A schedule. It is computed from this alone: every rank that gives the same gets the same. The library
   keeps the last one, so that calls for each rank, one after another, compute it once. */
typedef struct tandem_pipeline {
  size_t struct_bytes;
  const char* kind; /* "gpipe", "one_f_one_b" (or "1f1b"), "interleaved", "zb_h1", "zb_v", "v_uneven" */
  int32_t ranks;
  int32_t micro_batches;
  int32_t chunks; /* of each rank; 0: two for interleaved, zb_v and v_uneven, else one */
  /* Durations for v_uneven and for tandem_pipeline_predict, in any unit: forward, input part and
     weight part of each stage, stage by stage. NULL: all equal. */
  const int32_t* costs;
  size_t cost_count; /* 3 for each stage, of which there are ranks * chunks */
} tandem_pipeline;
#define TANDEM_PIPELINE_INIT \
  { sizeof(tandem_pipeline), "one_f_one_b", 1, 0, 0, NULL, 0 }

/*
 * The steps of a rank, in order. *count is the length of `steps` before and the number of steps
 * after the call; with steps NULL only the number is asked for. Forwards, input parts and weight
 * parts of a chunk are in the order of micro-batches.
 *
 * Errors  TANDEM_ERR_BAD_INPUT: no such kind, numbers out of range, or `steps` is too short.
 */
tandem_status tandem_pipeline_steps(const tandem_pipeline* pipeline, int32_t rank, tandem_pipeline_step* steps,
                                    size_t* count, tandem_error* error);
/* The stage of the model that a rank's chunk is: 0 to ranks * chunks - 1. */
tandem_status tandem_pipeline_stage(const tandem_pipeline* pipeline, int32_t rank, int32_t chunk, int32_t* stage,
                                    tandem_error* error);

/* A rank in the simulation of a schedule, with messages that take no time. */
typedef struct tandem_pipeline_prediction {
  size_t struct_bytes;
  int32_t chunks;       /* of each rank */
  int32_t peak_stash;   /* maximum of micro-batches of its chunks between forward and the end of backward */
  int32_t peak_weights; /* maximum of input parts whose weight part is pending */
  int64_t slots;        /* until the last rank has completed, in the unit of the costs */
  int64_t busy_slots;   /* in which this rank computes */
  double bubble;        /* the part of the time in which this rank does not compute */
  double bubble_of_all; /* the same of all ranks together */
} tandem_pipeline_prediction;
#define TANDEM_PIPELINE_PREDICTION_INIT \
  { sizeof(tandem_pipeline_prediction), 0, 0, 0, 0, 0, 0, 0 }

tandem_status tandem_pipeline_predict(const tandem_pipeline* pipeline, int32_t rank,
                                      tandem_pipeline_prediction* prediction, tandem_error* error);

#ifdef __cplusplus
}
#endif
#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#endif
