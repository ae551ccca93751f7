#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <cstdint>
#include <tandem/detail/fork.hpp>

namespace tandem {

namespace asio = boost::asio;

class pollable;

/// What a loop may poll by itself, faster than through the kernel's event queue: a socket, later a
/// completion queue or a ring in shared memory. One per execution context.
///
/// Its list has no lock, for every walk and every link would pay for one: pollables are made,
/// polled and destroyed on the one thread that runs the context, or before it runs. A strand does
/// not suffice, for all strands of a context share the list.
class poller final : public asio::execution_context::service {
 public:
  using key_type = poller;
  static inline asio::execution_context::id id;
  explicit poller(asio::execution_context& context) : service(context) {}
  static poller& of(const asio::any_io_executor& executor);
  /// @par Errors thrown: `errc::used_after_fork` where the context is the parent's of this process.
  void require_own_process() const { origin_.require_here("this io_context"); }

  /// True while `tandem::run` drives the context. Otherwise everybody stays armed.
  bool is_polling() const noexcept { return is_polling_; }
  void set_polling(bool on) noexcept { is_polling_ = on; }
  /// True while that loop polls before it sleeps and no other waits for its core.
  bool may_linger() const noexcept { return is_polling_ && has_core_; }
  void set_core(bool own) noexcept { has_core_ = own; }

  /// One more, or one less, waits for what only its own look sees, not memory, and soon: rounds
  /// follow each other with little between.
  void hurry(bool on) noexcept { hurried_ += on ? 1 : -1; }
  bool is_hurried() const noexcept { return hurried_ > 0; }

  /// The loop's own handler that polls: queued at most once, and what it found.
  struct {
    bool is_posted = false;
    bool found = false;
  } look;

  /// Polls everyone once; true where somebody found something.
  bool poll();
  /// How many only look at memory.
  int memory_links() const noexcept { return memory_links_; }
  /// The same for those that only look at memory: some nanoseconds each, no system call.
  bool poll_memory();
  /// Arms everyone: the loop is about to sleep.
  void arm();

 private:
  friend class pollable;
  void shutdown() noexcept override {}

  bool poll_all(pollable* first);

  pollable* first_ = nullptr;         // that ask the kernel
  pollable* first_memory_ = nullptr;  // that do not
  int memory_links_ = 0;
  int hurried_ = 0;
  detail::process_origin origin_;
  pollable* upcoming_ = nullptr;  // where a walk goes on, should its next one be destroyed
  bool is_polling_ = false;
  bool has_core_ = false;
};

/// One thing that is polled. Whoever is cold arms himself and is then skipped at no cost but a
/// call.
class pollable {
 public:
  /// What a look costs: a system call, or a glance at memory that may be repeated many times over.
  enum class look : std::uint8_t { asks_kernel, reads_memory };
  explicit pollable(const asio::any_io_executor& executor, look costs = look::asks_kernel);
  pollable(const pollable&) = delete;
  pollable& operator=(const pollable&) = delete;

 protected:
  ~pollable();
  poller& loop() const noexcept { return poller_; }

 private:
  friend class poller;
  /// Looks once without blocking; true where it found something. May destroy any pollable but
  /// itself.
  virtual bool poll() = 0;
  /// From here on the kernel wakes the loop at the next event. Harmless twice.
  virtual void arm() = 0;

  poller& poller_;
  pollable* next_ = nullptr;
  pollable* previous_ = nullptr;
  const look costs_;
};

}  // namespace tandem
