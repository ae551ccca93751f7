#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <mutex>
#include <tandem/detail/loop_owner.hpp>
#include <tandem/detail/poller.hpp>
#include <vector>

namespace tandem::detail {

constinit thread_local thread_mark* this_thread_mark = nullptr;

thread_mark loop_thread::any;

namespace {

/// Marks of threads that have ended, to be used again.
class free_marks {
 public:
  /// Never destroyed: threads may end after static objects.
  static free_marks& get() {
    static auto& instance = *new free_marks;
    return instance;
  }

  thread_mark* take() {
    const std::lock_guard lock(mutex_);
    if (marks_.empty()) return new thread_mark;
    thread_mark* const found = marks_.back();
    marks_.pop_back();
    found->is_alive = true;
    return found;
  }
  void give_back(thread_mark* of) noexcept {
    const std::lock_guard lock(mutex_);
    of->is_alive = false;
    try {
      marks_.push_back(of);
    } catch (...) {  // out of memory: it is not used again
    }
  }

 private:
  std::mutex mutex_;
  std::vector<thread_mark*> marks_;
};

/// Gives the mark back at the end of its thread.
struct mark_holder {
  mark_holder() { this_thread_mark = free_marks::get().take(); }
  ~mark_holder() { free_marks::get().give_back(std::exchange(this_thread_mark, nullptr)); }
};

using loop_executor = asio::io_context::executor_type;
using pool_executor = asio::thread_pool::executor_type;
using tracked_executor = decltype(asio::require(std::declval<loop_executor>(),
                                                asio::execution::outstanding_work.tracked));
using posting_executor =
    decltype(asio::require(std::declval<loop_executor>(), asio::execution::blocking.never));

template <class Executor>
bool is_in(const asio::any_io_executor& executor) {
  return executor.target<Executor>()->running_in_this_thread();
}

using is_inside = bool (*)(const asio::any_io_executor&);

template <class... Executors>
is_inside find(const asio::any_io_executor& executor) {
  is_inside found = nullptr;
  ((executor.target<Executors>() != nullptr ? void(found = is_in<Executors>) : void()), ...);
  return found;
}

is_inside loop_of(const asio::any_io_executor& executor) {
  return find<loop_executor, tracked_executor, posting_executor, pool_executor>(executor);
}

is_inside strand_of(const asio::any_io_executor& executor) {
  return find<asio::strand<loop_executor>, asio::strand<asio::any_io_executor>,
              asio::strand<pool_executor>, asio::strand<asio::system_executor>>(executor);
}

[[noreturn]] void refuse(std::string_view why) {
  throw error(errc::bad_input,
              fmt::format("{}, so that handlers of a channel would run at the same time", why),
              "use an io_context that one thread runs, or a strand: "
              "boost::asio::make_strand(executor)");
}

}  // namespace

thread_mark& mark_of_this_thread() {
  static thread_local const mark_holder holder;
  return *this_thread_mark;
}

bool loop_thread::is_this_after_all(const asio::any_io_executor& executor) noexcept {
  thread_mark* known = mark_.load(std::memory_order_relaxed);
  const bool is_known = known != nullptr && known->is_alive.load(std::memory_order_relaxed);
  const is_inside inside = loop_of(executor);
  // Before the loop runs, and after its thread has ended, any thread may call.
  if (inside == nullptr || !inside(executor)) return !is_known;
  thread_mark* const mine = &mark_of_this_thread();
  if (known == mine) return true;
  return !is_known && mark_.compare_exchange_strong(known, mine);
}

loop_owner::loop_owner(const asio::any_io_executor& executor) : executor_(executor) {
  if (executor.target<asio::system_executor>() != nullptr)
    refuse("the system executor has many threads");
  if (const auto* const pool = executor.target<pool_executor>()) {
    const std::size_t threads = asio::query(*pool, asio::execution::occupancy);
    if (threads > 1) refuse(fmt::format("the executor is of a pool of {} threads", threads));
  }
  if (has_one_thread(executor)) {
    thread_ = &poller::of(executor).thread();
  } else {
    strand_ = strand_of(executor);
  }
}

error loop_owner::wrong_thread(std::string_view what) const {
  if (strand_ != nullptr) {
    return {errc::wrong_thread,
            fmt::format("{}: the caller is not in the strand that drives it", what),
            "call it from a coroutine or a handler of that strand, for example through "
            "boost::asio::post"};
  }
  return {errc::wrong_thread,
          fmt::format("{}: another thread than this one runs its io_context", what),
          "let one thread run the io_context, or make it with a strand; from other threads use "
          "boost::asio::post"};
}

bool has_one_thread(const asio::any_io_executor& executor) {
  return loop_of(executor) != nullptr;
}

}  // namespace tandem::detail
