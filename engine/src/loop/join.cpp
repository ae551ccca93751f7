#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <tandem/async.hpp>
#include <tandem/detail/cancellable.hpp>
#include <utility>

namespace tandem {
namespace {

using token = asio::use_awaitable_t<>;
using parent = asio::async_result<token, void()>::handler_type;
enum class policy { cancel_rest, keep_all };

/// Owned by the branches alone, and sole owner of the parent: destroying the branches (with their
/// io_context) frees the entire tree. The outcomes are in the parent's frame.
struct join_state {
  join_state(parent waiting, std::vector<std::exception_ptr>& results, std::exception_ptr& failure,
             policy when)
      : handler(std::move(waiting)),
        outcomes(results),
        first(failure),
        pending(results.size()),
        running(std::make_unique<cancellable[]>(results.size())),
        on_failure(when) {}

  void cancel_all() {
    // If the last branch ends during this loop, the parent resumes and `outcomes` is destroyed.
    const std::size_t branches = outcomes.size();
    for (std::size_t i = 0; i < branches && pending > 0; ++i) {
      running[i].cancel();
    }
  }

  parent handler;
  std::vector<std::exception_ptr>& outcomes;
  std::exception_ptr& first;
  std::size_t pending;
  std::unique_ptr<cancellable[]> running;
  policy on_failure;
};

/// Completion handler of a branch. Copies share the state.
struct branch_end {
  std::shared_ptr<join_state> state;
  std::size_t index;

  void operator()(std::exception_ptr failure) {
    const std::shared_ptr<join_state> s = std::move(state);
    s->outcomes[index] = failure;
    const bool is_first = failure && !s->first;
    if (is_first) s->first = failure;
    if (--s->pending == 0) {
      parent resume = std::move(s->handler);
      resume();
      return;
    }
    if (is_first && s->on_failure == policy::cancel_rest) s->cancel_all();
  }
};

struct start_branches {
  asio::any_io_executor executor;
  std::vector<asio::awaitable<void>>* branches;
  std::vector<std::exception_ptr>* outcomes;
  std::exception_ptr* first;
  policy when;

  void operator()(parent handler) const {
    auto slot = asio::get_associated_cancellation_slot(handler);
    auto state = std::make_shared<join_state>(std::move(handler), *outcomes, *first, when);
    if (slot.is_connected()) {
      slot.assign([weak = std::weak_ptr<join_state>(state)](asio::cancellation_type) {
        if (const auto alive = weak.lock()) alive->cancel_all();
      });
    }
    // Branches may end, and the parent's frame with this object be destroyed, during the loop.
    std::vector<asio::awaitable<void>> all = std::move(*branches);
    const asio::any_io_executor ex = executor;
    for (std::size_t i = 0; i < all.size(); ++i) {
      state->running[i].start(ex, std::move(all[i]), branch_end{state, i});
    }
  }
};

asio::awaitable<void> join(std::vector<asio::awaitable<void>> branches, policy when,
                           std::vector<std::exception_ptr>& outcomes, std::exception_ptr& first) {
  outcomes.assign(branches.size(), nullptr);
  if (branches.empty()) co_return;
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  start_branches start{executor, &branches, &outcomes, &first, when};
  co_await asio::async_initiate<const token&, void()>(start, asio::use_awaitable);
}

}  // namespace

asio::awaitable<void> when_all(std::vector<asio::awaitable<void>> branches) {
  std::vector<std::exception_ptr> outcomes;
  std::exception_ptr first;
  co_await join(std::move(branches), policy::cancel_rest, outcomes, first);
  if (first) std::rethrow_exception(first);
}

asio::awaitable<std::vector<std::exception_ptr>> collect_all(
    std::vector<asio::awaitable<void>> branches) {
  std::vector<std::exception_ptr> outcomes;
  std::exception_ptr first;
  co_await join(std::move(branches), policy::keep_all, outcomes, first);
  co_return outcomes;
}

}  // namespace tandem
