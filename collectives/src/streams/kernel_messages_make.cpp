// How the two ranks of `kernel_messages` agree, and find each other's memory.
#include <unistd.h>

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/stream_word.hpp>
#include <tandem/kernel_messages.hpp>
#include <type_traits>
#include <utility>

#include "streams/kernel_beginning.hpp"
#include "streams/message_memory.hpp"
#include "streams/messages_about_streams.hpp"

namespace tandem {
namespace {

using detail::group;
using detail::kernel_beginning;
using detail::slot_memory;

/// Until the other rank has opened an allocation.
constexpr std::chrono::seconds open_limit{2};
constexpr std::chrono::microseconds open_interval{100};

/// Behind the tags of stream_messages, in the same flows.
constexpr std::uint16_t first_tag = 8;
constexpr std::uint16_t max_of_a_pair = 8;
constexpr std::uint16_t first_relay_tag = first_tag + 2 * max_of_a_pair;

template <class Message>
asio::awaitable<Message> exchange_with(std::shared_ptr<group> over, int peer, Message mine,
                                       std::uint16_t tag) {
  co_await detail::post_about_streams(over, peer, mine, tag);
  co_return co_await detail::take_about_streams<Message>(over, peer, tag);
}

kernel_beginning beginning_on(const accelerator& of) {
  return {.device = std::hash<std::string>{}(of.facts().uuid),
          .process = ::getpid(),
          .can = 1,
          .runs_processes_at_once = static_cast<std::uint8_t>(of.facts().runs_processes_at_once)};
}

/// Both ranks can, or both have a `why_not`.
asio::awaitable<void> agree(std::shared_ptr<group> over, int peer, std::uint16_t tag,
                            const accelerator& of, kernel_messages::made& outcome) {
  kernel_beginning own;
  if (outcome.why_not.empty()) own = beginning_on(of);
  const kernel_beginning theirs = co_await exchange_with(over, peer, own, tag);
  if (own.can == 0) co_return;
  if (theirs.can == 0) {
    outcome.why_not = "the other rank cannot";
  } else if (own.takes_turns_with(theirs)) {
    outcome.why_not = "kernels of both ranks take turns on one GPU, which MPS would run at once";
    outcome.take_turns = true;
  }
}

/// Waits until `find` finds something.
template <class Find>
asio::awaitable<std::invoke_result_t<Find>> poll_for(asio::any_io_executor executor, Find find) {
  const auto limit = std::chrono::steady_clock::now() + open_limit;
  asio::steady_timer later(executor);
  for (;;) {
    auto found = find();
    if (found != std::invoke_result_t<Find>{} || std::chrono::steady_clock::now() >= limit) {
      co_return found;
    }
    later.expires_after(open_interval);
    co_await later.async_wait(asio::use_awaitable);
  }
}

/// Work on a thread of its own, which owns all that it uses.
class work_beside {
 public:
  explicit work_beside(std::function<void()> work) {
    detail::run_detached("to allocate memory for relayed messages",
                         [of = state_, work = std::move(work)]() mutable {
                           try {
                             work();
                           } catch (...) {
                             of->failure = std::current_exception();
                           }
                           work = nullptr;  // and what it owns
                           of->is_over.store(true, std::memory_order_release);
                         });
  }
  /// Where the driver does not answer the thread stays behind.
  ~work_beside() {
    detail::passes_soon([this] { return is_over(); });
  }
  work_beside(const work_beside&) = delete;
  work_beside& operator=(const work_beside&) = delete;

  bool is_over() const noexcept { return state_->is_over.load(std::memory_order_acquire); }
  /// @pre is_over. What the work has thrown.
  void rethrow() const {
    if (state_->failure) std::rethrow_exception(state_->failure);
  }

 private:
  struct state {
    std::atomic<bool> is_over{false};
    std::exception_ptr failure;
  };
  const std::shared_ptr<state> state_ = std::make_shared<state>();
};

/// Where the driver keeps a lock until streams go on that wait for other relays, the loop must not
/// wait for the driver.
asio::awaitable<void> run_beside(asio::any_io_executor executor, std::function<void()> work) {
  const work_beside running(std::move(work));
  asio::steady_timer later(executor);
  while (!running.is_over()) {
    later.expires_after(open_interval);
    co_await later.async_wait(asio::use_awaitable);
  }
  running.rethrow();
}

}  // namespace

asio::awaitable<kernel_messages::made> kernel_messages::make(communicator& over, int peer,
                                                             accelerator& of, std::uint16_t which,
                                                             std::string why_not) {
  const std::shared_ptr<group> in = over.internals();
  const auto tag = static_cast<std::uint16_t>(first_tag + which);
  made outcome;
  outcome.why_not = std::move(why_not);
  if (outcome.why_not.empty() && of.kind() != memory_kind::cuda)
    outcome.why_not = "kernels reach the memory of another GPU only between those of NVIDIA";
  std::shared_ptr<memory> mine;
  if (outcome.why_not.empty()) {
    try {
      mine = std::make_shared<memory>(of);
      mine->make_slots();
    } catch (const error& why) {
      outcome.why_not = why.what();
    }
  }
  co_await agree(in, peer, tag, of, outcome);
  if (!outcome.why_not.empty()) co_return outcome;
  channel& to = *in->to(peer).on;
  const const_view slots = mine->slots->view();
  const memory_location here =
      co_await poll_for(over.get_executor(), [&] { return to.locate_memory(slots); });
  const memory_location there = co_await exchange_with(in, peer, here, tag);
  if (here == memory_location{} || there == memory_location{}) {
    outcome.why_not = "one GPU cannot reach the memory of the other";
    co_return outcome;
  }
  mine->other =
      co_await poll_for(over.get_executor(), [&] { return to.map_memory(there, slots.bytes, of); });
  if (mine->other) {
    mine->end.other = static_cast<slot_memory*>(mine->other->view().data);
    mine->other_slots = detail::slots_of_process::get().find(mine->end.other);
  } else {
    outcome.why_not = "the memory of the other GPU cannot be mapped";
  }
  co_await agree(in, peer, tag, of, outcome);
  if (!outcome.why_not.empty()) co_return outcome;
  outcome.messages.reset(new kernel_messages(peer));
  outcome.messages->memory_ = std::move(mine);
  co_return outcome;
}

asio::awaitable<kernel_messages::made> kernel_messages::make_relayed(communicator& over, int peer,
                                                                     accelerator& of,
                                                                     relay_handlers what,
                                                                     std::uint16_t which,
                                                                     std::string why_not) {
  const std::shared_ptr<group> in = over.internals();
  const auto tag = static_cast<std::uint16_t>(first_tag + max_of_a_pair + which);
  const auto flow_tag = static_cast<std::uint16_t>(first_relay_tag + which * detail::slot_blocks);
  made outcome;
  outcome.why_not = std::move(why_not);
  co_await in->connect(peer);
  std::shared_ptr<memory> mine;
  if (outcome.why_not.empty()) {
    try {
      struct parts {
        std::shared_ptr<memory> all;
        detail::slot_relay::memory slots;
      };
      const auto made = std::make_shared<parts>();
      std::function<void()> make = [made, on = &of] {
        made->all = std::make_shared<memory>(*on);
        made->slots = made->all->make_relay_slots();
      };
      co_await run_beside(over.get_executor(), std::move(make));
      mine = std::move(made->all);
      mine->relay = std::make_shared<detail::slot_relay>(in, peer, flow_tag, std::move(made->slots),
                                                         std::move(what));
    } catch (const error& why) {
      outcome.why_not = why.what();
    }
  }
  co_await agree(in, peer, tag, of, outcome);
  if (!outcome.why_not.empty()) co_return outcome;
  outcome.messages.reset(new kernel_messages(peer));
  outcome.messages->memory_ = std::move(mine);
  co_return outcome;
}

}  // namespace tandem
