#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <tandem/channel.hpp>
#include <tandem/detail/flight.hpp>
#include <tandem/detail/waiting.hpp>
#include <type_traits>
#include <utility>

namespace tandem {
namespace {

using token = asio::use_awaitable_t<>;
using detail::waiting_handler;

/// An operation in the frame of the awaiting coroutine: no allocation.
struct awaited : operation {
  awaited(kind k, flow_id f, mutable_view v) {
    what = k;
    flow = f;
    view = v;
    complete = [](operation& op) {
      auto& self = static_cast<awaited&>(op);
      detail::resume(self.handler, self.channel_executor);
    };
    destroy = [](operation& op) noexcept {
      // The handler owns the frame that this object lives in.
      const std::optional<waiting_handler> last = std::move(static_cast<awaited&>(op).handler);
    };
  }

  asio::any_io_executor channel_executor;
  std::optional<waiting_handler> handler;
};

struct suspend {
  channel* on;
  awaited* op;

  void operator()(waiting_handler h) const {
    auto slot = asio::get_associated_cancellation_slot(h);
    op->handler.emplace(std::move(h));
    if (!slot.is_connected()) return;
    slot.assign([on = on, op = op](asio::cancellation_type type) {
      // A finished operation may outlive its channel until its completion runs.
      if (!op->is_over() && (detail::is_terminal(type) || !op->is_moving())) on->cancel(*op);
    });
  }
};

/// @tparam Result  the length of the message, or void: one coroutine for both
template <class Result>
asio::awaitable<Result> carry_out(channel& on, operation::kind what, flow_id flow,
                                  mutable_view view) {
  awaited op(what, flow, view);
  if (!on.start(op) && !on.spin_wait(op)) {
    op.channel_executor = on.get_executor();
    suspend wait{&on, &op};
    co_await asio::async_initiate<const token&, void()>(wait, asio::use_awaitable);
  }
  if (op.failure) throw error(*op.failure);
  if (op.result) throw error(op.result);
  if constexpr (!std::is_void_v<Result>) co_return op.bytes;
}

}  // namespace

asio::awaitable<void> channel::send(flow_id flow, const_view message) {
  // An operation has one view type for both directions; a send only reads it.
  const mutable_view view{const_cast<void*>(message.data), message.bytes, message.kind,
                          message.device};
  return carry_out<void>(*this, operation::kind::send, flow, view);
}

asio::awaitable<std::size_t> channel::recv(flow_id flow, mutable_view into) {
  return carry_out<std::size_t>(*this, operation::kind::recv, flow, into);
}

asio::awaitable<std::size_t> channel::probe(flow_id flow) {
  return carry_out<std::size_t>(*this, operation::kind::probe, flow, {});
}

void channel::close() noexcept {
  fail(error(errc::channel_closed, {}));
}

}  // namespace tandem
