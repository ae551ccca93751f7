// Shifts a process's wall clock by LD_PRELOAD, as the machine's clock must not be set: by the
// seconds in the file WALL_CLOCK_AHEAD (eight bytes), which may change at any time, for all
// processes that map the same file.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

const volatile std::int64_t* ahead_s = nullptr;

__attribute__((constructor)) void map_file() {
  const char* const name = std::getenv("WALL_CLOCK_AHEAD");
  const int file = name == nullptr ? -1 : ::open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* const mapped = ::mmap(nullptr, sizeof *ahead_s, PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (mapped != MAP_FAILED) ahead_s = static_cast<const volatile std::int64_t*>(mapped);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* to) noexcept {
  using function = int (*)(clockid_t, timespec*);
  static const auto next = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int failed = next(clock, to);
  const bool shows_date = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (failed == 0 && ahead_s != nullptr && shows_date) to->tv_sec += *ahead_s;
  return failed;
}

extern "C" time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}

extern "C" int gettimeofday(timeval* __restrict to, void* __restrict) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  to->tv_sec = now.tv_sec;
  to->tv_usec = now.tv_nsec / 1000;
  return 0;
}
