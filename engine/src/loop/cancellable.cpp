#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <tandem/detail/cancellable.hpp>
#include <tandem/error.hpp>

namespace tandem {

void cancellable::cancel(asio::cancellation_type type) {
  if (is_running_) {
    signal_.emit(type);
  } else {
    is_cancelled_ = true;
  }
}

namespace {

/// Sets the flag until the coroutine ends or is destroyed with its loop.
class mark {
 public:
  explicit mark(bool& running) : running_(running) { running_ = true; }
  ~mark() { running_ = false; }
  mark(const mark&) = delete;
  mark& operator=(const mark&) = delete;

 private:
  bool& running_;
};

}  // namespace

asio::awaitable<void> cancellable::run(cancellable& self, asio::awaitable<void> work) {
  const mark running(self.is_running_);
  std::exception_ptr failure;
  try {
    if (self.is_cancelled_) throw error(asio::error::operation_aborted);
    co_await std::move(work);
  } catch (...) {
    failure = std::current_exception();
  }
  // Asio's final step must not throw a cancellation.
  co_await asio::this_coro::throw_if_cancelled(false);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tandem
