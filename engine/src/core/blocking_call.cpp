#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/settings.hpp>
#include <utility>

namespace tandem::detail {
namespace {

std::atomic<int> abandoned{0};
std::atomic<std::chrono::milliseconds> driver_limit{settings().meet_timeout};

/// A handler of the application must not run on a thread that it does not know.
class blocked_signals {
 public:
  blocked_signals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  blocked_signals(const blocked_signals&) = delete;
  blocked_signals& operator=(const blocked_signals&) = delete;
  ~blocked_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

struct call {
  std::mutex mutex;
  std::condition_variable changed;
  bool has_returned = false;
  bool is_abandoned = false;
  std::exception_ptr failure;
};

void* run_work(void* work) noexcept {
  (*std::unique_ptr<std::function<void()>>(static_cast<std::function<void()>*>(work)))();
  return nullptr;
}

/// Starts a thread that is to be joined or detached.
pthread_t start_thread(std::string_view purpose, std::function<void()> work) {
  auto kept = std::make_unique<std::function<void()>>(std::move(work));
  pthread_t started{};
  start_threads(fmt::format("cannot start a thread {}", purpose), [&] {
    const blocked_signals until_started;
    const int failed = ::pthread_create(&started, nullptr, run_work, kept.get());
    if (failed != 0) throw std::system_error(failed, std::generic_category());
  });
  kept.release();
  return started;
}

/// Waits until a thread that has done its work ends, and for at most `limit`: what libraries keep
/// per thread is freed after the work, where they may block, and would seem to leak if the process
/// exited meanwhile.
void end_within(std::chrono::milliseconds limit, pthread_t thread) {
  using namespace std::chrono;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const nanoseconds end = seconds(now.tv_sec) + nanoseconds(now.tv_nsec) +
                          std::min<nanoseconds>(limit, hours(24));  // the sum fits
  const timespec until{duration_cast<seconds>(end).count(), (end % seconds(1)).count()};
  if (::pthread_timedjoin_np(thread, nullptr, &until) != 0) ::pthread_detach(thread);
}

}  // namespace

void run_detached(std::string_view purpose, std::function<void()> work) {
  ::pthread_detach(start_thread(purpose, std::move(work)));
}

bool run_within(std::chrono::milliseconds limit, std::function<void()> work) {
  const auto state = std::make_shared<call>();
  const pthread_t thread =
      start_thread("for a call that may block", [state, work = std::move(work)] {
        std::exception_ptr failure;
        try {
          work();
        } catch (...) {
          failure = std::current_exception();
        }
        const std::lock_guard lock(state->mutex);
        state->failure = std::move(failure);
        state->has_returned = true;
        if (state->is_abandoned) --abandoned;
        state->changed.notify_all();
      });
  {
    std::unique_lock lock(state->mutex);
    if (!state->changed.wait_for(lock, limit, [&] { return state->has_returned; })) {
      state->is_abandoned = true;
      ++abandoned;
      ::pthread_detach(thread);
      return false;
    }
  }
  end_within(limit, thread);
  if (state->failure) std::rethrow_exception(std::exchange(state->failure, nullptr));
  return true;
}

int abandoned_calls() noexcept {
  return abandoned.load();
}

std::chrono::milliseconds driver_timeout() noexcept {
  constexpr std::chrono::milliseconds after_another{500};
  const std::chrono::milliseconds limit = driver_limit.load();
  return abandoned_calls() > 0 ? std::min(limit, after_another) : limit;
}

void set_driver_timeout(std::chrono::milliseconds limit) noexcept {
  driver_limit.store(limit);
}

error no_answer(const std::string& what, std::chrono::milliseconds limit, std::string advice) {
  return error(errc::timed_out, fmt::format("{}: no answer within {}", what, to_text(limit)),
               std::move(advice));
}

}  // namespace tandem::detail
