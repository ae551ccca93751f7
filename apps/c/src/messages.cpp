#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <cstring>
#include <tandem/async.hpp>
#include <utility>

#include "group_of_ranks.hpp"
#include "job_state.hpp"

namespace tandem::c {

error too_long(std::size_t bytes, int from, mutable_view into) {
  return error(
      make_error_code(errc::message_truncated),
      {.peer = from,
       .rail = {},
       .phase = "recv",
       .bytes_total = static_cast<std::int64_t>(bytes),
       .detail = fmt::format("the message is longer than the buffer of {} bytes", into.bytes),
       .advice = "receive into a buffer of at least the message's length"});
}

namespace {

void check_fits(std::size_t bytes, int from, mutable_view into) {
  if (bytes > into.bytes) throw too_long(bytes, from, into);
}

void deliver(const group_of_ranks::message& text, int from, mutable_view into,
             operation_state& op) {
  check_fits(text.size(), from, into);
  if (!text.empty()) std::memcpy(into.data, text.data(), text.size());
  op.bytes = text.size();
  op.source = from;
}

/// The receives of one call, from all other ranks at once.
struct receives {
  explicit receives(const asio::any_io_executor& executor) : changed(executor) {}

  struct one {
    explicit one(int rank, std::size_t bytes) : from(rank), text(bytes) {}
    int from;
    group_of_ranks::message text;
    cancellable running;
    bool is_over = false;
    bool has_message = false;
    std::exception_ptr failure;
  };

  static asio::awaitable<void> receive(communicator& among, one& into, std::uint16_t tag) {
    const mutable_view view(into.text);
    const std::size_t bytes = co_await among.recv(into.from, view, tag);
    into.text.resize(bytes);
    into.has_message = true;
  }
  void start(communicator& among, std::uint16_t tag) {
    for (const std::unique_ptr<one>& each : all) {
      each->running.start(among.get_executor(), receive(among, *each, tag),
                          [this, each = each.get()](std::exception_ptr failure) {
                            each->is_over = true;
                            each->failure = failure;
                            changed.notify_all();
                          });
    }
  }
  one* first_over() const {
    const auto found = std::ranges::find_if(all, [](const auto& each) { return each->is_over; });
    return found == all.end() ? nullptr : found->get();
  }
  bool all_over() const {
    return std::ranges::all_of(all, [](const auto& each) { return each->is_over; });
  }
  void cancel() {
    for (const std::unique_ptr<one>& each : all) {
      if (!each->is_over) each->running.cancel();
    }
  }

  std::vector<std::unique_ptr<one>> all;
  async_condition changed;
};

}  // namespace

asio::awaitable<void> receive_from_any(std::shared_ptr<group_of_ranks> among, mutable_view into,
                                       int tag, operation_state& op) {
  if (into.kind != memory_kind::host) {
    throw error(errc::unsupported_memory, "recv from any source: the buffer is in device memory",
                "receive into host memory, or name the source");
  }
  for (int from = 0; from < among->size(); ++from) {
    if (const auto early = among->take_early_message(from, tag))
      co_return deliver(*early, from, into, op);
  }
  receives posted(among->ranks().get_executor());
  for (int from = 0; from < among->size(); ++from) {
    if (from != among->rank())
      posted.all.push_back(std::make_unique<receives::one>(from, into.bytes));
  }
  if (posted.all.empty()) {
    throw error(errc::bad_input, "recv from any source: the group has no other rank");
  }
  posted.start(among->ranks(), static_cast<std::uint16_t>(tag));
  std::exception_ptr cancelled;
  try {
    while (posted.first_over() == nullptr) co_await posted.changed.wait();
  } catch (...) {
    cancelled = std::current_exception();
  }
  receives::one* const first = posted.first_over();
  posted.cancel();
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!posted.all_over()) co_await posted.changed.wait();
  co_await asio::this_coro::throw_if_cancelled(throws);
  for (const std::unique_ptr<receives::one>& each : posted.all) {
    if (each.get() != first && each->has_message) {
      among->keep_early_message(each->from, tag, std::move(each->text));
    }
  }
  if (first == nullptr) std::rethrow_exception(cancelled);
  if (first->failure) std::rethrow_exception(first->failure);
  deliver(first->text, first->from, into, op);
}

namespace {

/// Copies a message of this rank to itself, and tells its send.
asio::awaitable<void> copy_from_self(group_of_ranks& among, group_of_ranks::own_message& from,
                                     mutable_view into, operation_state& op) {
  const bool is_device = from.on_device.kind != memory_kind::host;
  if (!is_device && into.kind == memory_kind::host) {
    deliver(from.text, among.rank(), into, op);
    co_return;
  }
  const void* const data = is_device ? from.on_device.data : from.text.data();
  const std::size_t bytes = is_device ? from.on_device.bytes : from.text.size();
  std::exception_ptr failure;
  try {
    check_fits(bytes, among.rank(), into);
    const std::shared_ptr<device_side> side =
        is_device ? among.job()->side_of(from.on_device.kind, from.on_device.device)
                  : among.job()->side_of(into.kind, into.device);
    from.is_copying = true;
    if (bytes > 0) co_await side->copy(into.data, data, bytes);
    op.bytes = bytes;
    op.source = among.rank();
  } catch (...) {
    failure = std::current_exception();
  }
  from.is_received = true;
  among.own_changed().notify_all();
  if (failure) std::rethrow_exception(failure);
}

/// Receives in the order in which they start.
asio::awaitable<void> receive_from_self(std::shared_ptr<group_of_ranks> among, mutable_view into,
                                        int tag, operation_state& op) {
  group_of_ranks::own_messages& own = among->own(tag);
  const std::uint64_t turn = own.next_receive++;
  own.receives.push_back(turn);
  std::exception_ptr cancelled;
  try {
    while (own.receives.front() != turn || own.sent.empty()) {
      co_await among->own_changed().wait();
    }
  } catch (...) {
    cancelled = std::current_exception();
  }
  std::erase(own.receives, turn);
  among->own_changed().notify_all();
  if (cancelled) std::rethrow_exception(cancelled);
  const std::shared_ptr<group_of_ranks::own_message> from = std::move(own.sent.front());
  own.sent.pop_front();
  co_await copy_from_self(*among, *from, into, op);
}

/// From host memory: at once, by a copy. From device memory: when it has been received.
asio::awaitable<void> send_to_self(std::shared_ptr<group_of_ranks> among, const_view message,
                                   int tag) {
  const auto made = std::make_shared<group_of_ranks::own_message>();
  group_of_ranks::own_messages& own = among->own(tag);
  const bool is_host = message.kind == memory_kind::host;
  if (is_host) {
    const auto* const first = static_cast<const std::byte*>(message.data);
    made->text.assign(first, first + message.bytes);
  } else {
    made->on_device = message;
  }
  own.sent.push_back(made);
  among->own_changed().notify_all();
  if (is_host) co_return;
  std::exception_ptr cancelled;
  try {
    while (!made->is_received) co_await among->own_changed().wait();
  } catch (...) {
    cancelled = std::current_exception();
  }
  if (made->is_received) co_return;
  if (!made->is_copying) {
    std::erase(own.sent, made);
    std::rethrow_exception(cancelled);
  }
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!made->is_received) co_await among->own_changed().wait();
}

}  // namespace

asio::awaitable<void> receive_from(std::shared_ptr<group_of_ranks> among, mutable_view into,
                                   int from, int tag, operation_state& op) {
  if (from == among->rank()) {
    asio::awaitable<void> receive = receive_from_self(among, into, tag, op);
    const auto limit = op.timeout.value_or(among->job()->operation_timeout());
    co_await with_deadline(limit, std::move(receive), "recv: waiting for a message",
                           "this rank has sent itself no message with that tag");
    co_return;
  }
  if (const auto early = among->take_early_message(from, tag))
    co_return deliver(*early, from, into, op);
  op.bytes = co_await among->ranks().recv(from, into, static_cast<std::uint16_t>(tag));
  op.source = from;
}

asio::awaitable<void> send_to(std::shared_ptr<group_of_ranks> among, const_view message, int to,
                              int tag) {
  if (to != among->rank()) {
    co_await among->ranks().send(to, message, static_cast<std::uint16_t>(tag));
    co_return;
  }
  co_await send_to_self(std::move(among), message, tag);
}

}  // namespace tandem::c
