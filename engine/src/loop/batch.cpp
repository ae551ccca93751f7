#include <fmt/format.h>

#include <boost/asio/this_coro.hpp>
#include <tandem/channel.hpp>
#include <tandem/detail/flight.hpp>
#include <vector>

namespace tandem {

struct batch::state {
  state(const asio::any_io_executor& where, std::size_t max_messages)
      : executor(where), transfers(max_messages), io(transfers, executor) {}

  detail::transfer& next() {
    if (is_over) {
      is_over = false;
      used = 0;
    }
    if (used == transfers.size()) {
      throw error(errc::limit_exceeded, fmt::format("a batch of {} messages is full", used),
                  "await all of them before adding more, or make it larger");
    }
    return transfers[used++];
  }

  const asio::any_io_executor executor;
  std::vector<detail::transfer> transfers;
  detail::flight io;
  std::size_t used = 0;
  bool is_over = false;  // the next one starts a new batch
};

batch::batch(const asio::any_io_executor& executor, std::size_t max_messages)
    : state_(std::make_shared<state>(executor, max_messages)) {}

batch::~batch() {
  if (state_->io.idle()) return;
  state_->io.cancel();
  if (!state_->io.idle()) state_->io.keep_alive(state_);
}

void batch::send(channel& on, flow_id flow, const_view message) {
  state_->io.send(state_->next(), {.on = &on}, flow, message);
}

std::size_t batch::recv(channel& on, flow_id flow, mutable_view into) {
  state_->io.recv_some(state_->next(), {.on = &on}, flow, into);
  return state_->used - 1;
}

asio::awaitable<void> batch::all() {
  const std::shared_ptr<state> s = state_;
  detail::flight& io = s->io;
  std::exception_ptr failure;
  try {
    for (std::size_t i = 0; i < s->used; ++i) {
      detail::transfer& each = s->transfers[i];
      while (!io.over(each)) co_await io.until(each);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure && !io.idle()) {
    io.cancel();
    // A cancelled coroutine must still be able to wait.
    const bool throws = co_await asio::this_coro::throw_if_cancelled();
    co_await asio::this_coro::throw_if_cancelled(false);
    while (!io.idle()) co_await io.until_idle();
    co_await asio::this_coro::throw_if_cancelled(throws);
  }
  io.reset();
  s->is_over = true;
  if (failure) std::rethrow_exception(failure);
}

std::size_t batch::size() const noexcept {
  return state_->is_over ? 0 : state_->used;
}

std::size_t batch::bytes(std::size_t number) const {
  return state_->transfers.at(number).bytes;
}

}  // namespace tandem
