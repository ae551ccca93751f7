/* A store for tests: each key is a file of one folder. */
#ifndef TANDEM_TESTS_C_FILE_STORE_H
#define TANDEM_TESTS_C_FILE_STORE_H

#include <stdio.h>
#include <string.h>
#include <tandem.h>
#include <time.h>
#include <unistd.h>

static inline void path_of(char* path, size_t bytes, const char* folder, const char* key) {
  const int length = snprintf(path, bytes, "%s/%s", folder, key);
  for (char* c = path + strlen(folder) + 1; c < path + length; ++c) {
    if (*c == '/') *c = '_';
  }
}

static inline int set_file(void* folder, const char* key, const void* value, size_t bytes) {
  char path[512];
  char unfinished[520];
  path_of(path, sizeof path, folder, key);
  snprintf(unfinished, sizeof unfinished, "%s.%d", path, (int)getpid());
  FILE* const file = fopen(unfinished, "wb");
  if (file == NULL) return 1;
  const size_t written = fwrite(value, 1, bytes, file);
  if (fclose(file) != 0 || written != bytes) return 1;
  return rename(unfinished, path);
}

static inline int get_file(void* folder, const char* key, void* value, size_t* bytes, int64_t timeout_ms) {
  char path[512];
  path_of(path, sizeof path, folder, key);
  for (int64_t waited_ms = 0; access(path, R_OK) != 0; ++waited_ms) {
    if (waited_ms >= timeout_ms) return 1;
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  FILE* const file = fopen(path, "rb");
  if (file == NULL) return 1;
  *bytes = fread(value, 1, *bytes, file);
  fclose(file);
  return 0;
}

static inline tandem_store file_store(char* folder) {
  return (tandem_store){sizeof(tandem_store), folder, set_file, get_file};
}

#endif
