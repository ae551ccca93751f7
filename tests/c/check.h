/* Checks of the C tests: a failed one is printed with its place and ends the program. */
#ifndef TANDEM_TESTS_C_CHECK_H
#define TANDEM_TESTS_C_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem.h>

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

/* The call succeeds; `error` is the tandem_error that it fills. */
#define OK(call, error)                                                                   \
  do {                                                                                    \
    const tandem_status status_ = (call);                                                 \
    if (status_ != TANDEM_OK) {                                                           \
      fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, (error).text,    \
              tandem_status_name(status_));                                               \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

/* The call fails with that status, and the text contains that part. */
#define FAILS(call, error, expected, part)                                                     \
  do {                                                                                         \
    const tandem_status status_ = (call);                                                      \
    if (status_ != (expected) || strstr((error).text, (part)) == NULL) {                       \
      fprintf(stderr, "%s:%d: %s: %d '%s', expected %d '%s'\n", __FILE__, __LINE__, #call,     \
              (int)status_, (error).text, (int)(expected), (part));                            \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

/* A buffer of an array in host memory. */
#define HOST(array) ((tandem_buffer){(array), sizeof(array), TANDEM_HOST, 0})
#define HOST_PART(array, first, count) \
  ((tandem_buffer){(array) + (first), (count) * sizeof((array)[0]), TANDEM_HOST, 0})

/* Waits for an operation, which succeeds, and releases it. */
static inline void finish(tandem_op* op) {
  tandem_error error = TANDEM_ERROR_INIT;
  OK(tandem_op_wait(op, 30000, &error), error);
  tandem_op_release(op);
}

#endif
