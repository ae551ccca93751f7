#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <cstring>
#include <tandem/async.hpp>
#include <utility>

#include "group_of_ranks.hpp"
#include "job_state.hpp"

namespace tandem::c {
namespace {

void deliver(const group_of_ranks::message& text, int from, mutable_view into,
             operation_state& op) {
  if (text.size() > into.bytes) {
    throw error(
        make_error_code(errc::message_truncated),
        {.peer = from,
         .rail = {},
         .phase = "recv",
         .bytes_total = static_cast<std::int64_t>(text.size()),
         .detail = fmt::format("the message is longer than the buffer of {} bytes", into.bytes),
         .advice = "receive into a buffer of at least the message's length"});
  }
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

error no_device_memory(const char* call) {
  return error(errc::unsupported_memory,
               std::string(call) + ": a message of a rank to itself is in device memory",
               "copy it on the device");
}

/// Receives in the order in which they start.
asio::awaitable<void> receive_from_self(std::shared_ptr<group_of_ranks> among, mutable_view into,
                                        int tag, operation_state& op) {
  if (into.kind != memory_kind::host) throw no_device_memory("recv");
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
  const group_of_ranks::message text = std::move(own.sent.front());
  own.sent.pop_front();
  deliver(text, among->rank(), into, op);
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
  if (message.kind != memory_kind::host) throw no_device_memory("send");
  const auto* const first = static_cast<const std::byte*>(message.data);
  among->own(tag).sent.emplace_back(first, first + message.bytes);
  among->own_changed().notify_all();
}

}  // namespace tandem::c
