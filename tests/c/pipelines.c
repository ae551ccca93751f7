/* Pipeline schedules: steps, placement and predictions of every kind, and what is refused. */
#include <tandem_pipelines.h>

#include <math.h>
#include <pthread.h>

#include "check.h"

static tandem_pipeline pipeline_of(const char* kind, int ranks, int micro_batches, int chunks) {
  tandem_pipeline made = TANDEM_PIPELINE_INIT;
  made.kind = kind;
  made.ranks = ranks;
  made.micro_batches = micro_batches;
  made.chunks = chunks;
  return made;
}

/* The steps of a rank as text: "F0.0 I0.0 W0.0". */
static const char* steps_of(const tandem_pipeline* pipeline, int rank) {
  static char text[4096];
  tandem_error error = TANDEM_ERROR_INIT;
  size_t count = 0;
  OK(tandem_pipeline_steps(pipeline, rank, NULL, &count, &error), error);
  CHECK(count <= 256);
  tandem_pipeline_step steps[256];
  OK(tandem_pipeline_steps(pipeline, rank, steps, &count, &error), error);
  text[0] = 0;
  for (size_t i = 0; i < count; ++i) {
    CHECK(steps[i].what >= TANDEM_FORWARD && steps[i].what <= TANDEM_BACKWARD_WEIGHTS);
    char word[32];
    snprintf(word, sizeof word, "%s%c%d.%d", i == 0 ? "" : " ", "FBIW"[steps[i].what],
             (int)steps[i].micro_batch, (int)steps[i].chunk);
    strcat(text, word);
  }
  return text;
}

static void steps_are_those_of_the_papers(void) {
  tandem_pipeline pipeline = pipeline_of("gpipe", 2, 2, 0);
  CHECK(strcmp(steps_of(&pipeline, 0), "F0.0 F1.0 B0.0 B1.0") == 0);
  pipeline.kind = "1f1b";
  CHECK(strcmp(steps_of(&pipeline, 1), "F0.0 B0.0 F1.0 B1.0") == 0);
  pipeline.kind = "zb_h1";
  CHECK(strcmp(steps_of(&pipeline, 1), "F0.0 I0.0 F1.0 I1.0 W0.0 W1.0") == 0);
  pipeline = pipeline_of("interleaved", 2, 2, 2);
  CHECK(strcmp(steps_of(&pipeline, 1), "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0") == 0);
  pipeline = pipeline_of("zb_v", 1, 1, 0);
  CHECK(strcmp(steps_of(&pipeline, 0), "F0.0 F0.1 I0.1 W0.1 I0.0 W0.0") == 0);
  pipeline = pipeline_of("one_f_one_b", 3, 0, 0);
  CHECK(strcmp(steps_of(&pipeline, 2), "") == 0);
}

static void placement_is_looped_or_v(void) {
  tandem_error error = TANDEM_ERROR_INIT;
  tandem_pipeline pipeline = pipeline_of("interleaved", 4, 4, 3);
  int32_t stage = -1;
  OK(tandem_pipeline_stage(&pipeline, 1, 2, &stage, &error), error);
  CHECK(stage == 9);
  pipeline = pipeline_of("zb_v", 4, 4, 0);
  OK(tandem_pipeline_stage(&pipeline, 1, 0, &stage, &error), error);
  CHECK(stage == 1);
  OK(tandem_pipeline_stage(&pipeline, 1, 1, &stage, &error), error);
  CHECK(stage == 6);
  FAILS(tandem_pipeline_stage(&pipeline, 1, 2, &stage, &error), error, TANDEM_ERR_BAD_INPUT, "no chunk 2 of 2");
}

static void predictions_are_those_of_the_papers(void) {
  tandem_error error = TANDEM_ERROR_INIT;
  tandem_pipeline_prediction found = TANDEM_PIPELINE_PREDICTION_INIT;
  tandem_pipeline pipeline = pipeline_of("one_f_one_b", 4, 8, 0);
  OK(tandem_pipeline_predict(&pipeline, 0, &found, &error), error);
  CHECK(found.peak_stash == 4 && found.peak_weights == 0 && found.slots == 33 && found.busy_slots == 24);
  CHECK(fabs(found.bubble - 3.0 / 11) < 1e-12 && fabs(found.bubble_of_all - 3.0 / 11) < 1e-12);
  pipeline.kind = "zb_v";
  OK(tandem_pipeline_predict(&pipeline, 3, &found, &error), error);
  CHECK(found.chunks == 2 && found.peak_stash == 8 && found.slots == 51 && found.busy_slots == 48);

  const int32_t costs[] = {1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 1, 1};
  pipeline = pipeline_of("v_uneven", 2, 8, 0);
  pipeline.costs = costs;
  pipeline.cost_count = 12;
  OK(tandem_pipeline_predict(&pipeline, 1, &found, &error), error);
  CHECK(found.busy_slots == 8 * 12);
  found.struct_bytes = sizeof found.struct_bytes; /* of a caller that knows no member */
  found.slots = -1;
  OK(tandem_pipeline_predict(&pipeline, 1, &found, &error), error);
  CHECK(found.slots == -1);
}

/* The library keeps the last schedule: others in between, of this or of other threads, change nothing. */
static void* others_between(void* ignored) {
  const int32_t costs[] = {1, 1, 1, 9, 9, 9, 1, 1, 1, 1, 1, 1};
  tandem_pipeline even = pipeline_of("v_uneven", 2, 6, 0);
  tandem_pipeline uneven = even;
  uneven.costs = costs;
  uneven.cost_count = 12;
  tandem_error error = TANDEM_ERROR_INIT;
  for (int turn = 0; turn < 100; ++turn) {
    for (int rank = 0; rank < 2; ++rank) {
      tandem_pipeline_prediction found = TANDEM_PIPELINE_PREDICTION_INIT;
      OK(tandem_pipeline_predict(&even, rank, &found, &error), error);
      CHECK(found.busy_slots == 6 * 6);
      OK(tandem_pipeline_predict(&uneven, rank, &found, &error), error);
      CHECK(found.busy_slots == 6 * (rank == 0 ? 6 : 30));
      size_t count = 0;
      even.micro_batches = 5 + turn % 2;
      OK(tandem_pipeline_steps(&even, rank, NULL, &count, &error), error);
      CHECK(count == (size_t)(6 * even.micro_batches)); /* three parts in each of two chunks */
      even.micro_batches = 6;
      uneven.kind = "zb_v"; /* whose steps costs do not change */
      OK(tandem_pipeline_predict(&uneven, rank, &found, &error), error);
      CHECK(found.busy_slots == 6 * (rank == 0 ? 6 : 30));
      uneven.kind = "v_uneven";
    }
  }
  return ignored;
}

static void calls_with_other_arguments_between(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, others_between, NULL) == 0);
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void bad_input_is_refused(void) {
  tandem_error error = TANDEM_ERROR_INIT;
  tandem_pipeline pipeline = pipeline_of("gpiep", 2, 2, 0);
  tandem_pipeline_step steps[2];
  size_t count = 2;
  FAILS(tandem_pipeline_steps(&pipeline, 0, steps, &count, &error), error, TANDEM_ERR_BAD_INPUT,
        "there is no pipeline schedule 'gpiep'");
  pipeline.kind = "gpipe";
  FAILS(tandem_pipeline_steps(&pipeline, 0, steps, &count, &error), error, TANDEM_ERR_BAD_INPUT,
        "4 steps, but only 2 places");
  CHECK(count == 4);
  FAILS(tandem_pipeline_steps(&pipeline, 2, NULL, &count, &error), error, TANDEM_ERR_BAD_INPUT,
        "no rank 2 of 2");
  FAILS(tandem_pipeline_steps(&pipeline, 0, NULL, NULL, &error), error, TANDEM_ERR_BAD_INPUT, "count");
  FAILS(tandem_pipeline_steps(NULL, 0, NULL, &count, &error), error, TANDEM_ERR_BAD_INPUT, "pipeline");
  pipeline.chunks = 2;
  FAILS(tandem_pipeline_steps(&pipeline, 0, NULL, &count, &error), error, TANDEM_ERR_BAD_INPUT, "2 chunks");
  const int32_t costs[] = {1, 1, 0};
  pipeline = pipeline_of("gpipe", 1, 2, 0);
  pipeline.costs = costs;
  pipeline.cost_count = 3;
  FAILS(tandem_pipeline_steps(&pipeline, 0, NULL, &count, &error), error, TANDEM_ERR_BAD_INPUT, "the cost 0");
  pipeline.cost_count = 2;
  FAILS(tandem_pipeline_steps(&pipeline, 0, NULL, &count, &error), error, TANDEM_ERR_BAD_INPUT, "2 costs");
}

int main(void) {
  steps_are_those_of_the_papers();
  placement_is_looped_or_v();
  predictions_are_those_of_the_papers();
  calls_with_other_arguments_between();
  bad_input_is_refused();
  return 0;
}
