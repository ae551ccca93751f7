#pragma once

#include <boost/asio/awaitable.hpp>
#include <tandem/async.hpp>
#include <tandem/channel.hpp>

namespace tandem::test {

/// An operation as used without coroutines; counts its completions.
struct pending_operation : operation {
  pending_operation(channel& on, kind k, flow_id f, mutable_view v)
      : channel_(on), ended(on.get_executor()) {
    what = k;
    flow = f;
    view = v;
    complete = [](operation& op) {
      auto& self = static_cast<pending_operation&>(op);
      ++self.completions;
      self.was_inside_start = self.is_starting;
      self.ended.notify_all();
    };
    destroy = [](operation&) noexcept {};
  }

  /// True: completed inside `start`.
  bool start() {
    is_starting = true;
    ended_in_start = channel_.start(*this);
    is_starting = false;
    return ended_in_start;
  }
  void cancel() { channel_.cancel(*this); }

  /// Waits until it is complete, inside `start` or later.
  boost::asio::awaitable<void> wait() {
    while (!ended_in_start && completions == 0) co_await ended.wait();
  }

  channel& channel_;
  async_condition ended;
  int completions = 0;
  bool is_starting = false;
  bool was_inside_start = false;
  bool ended_in_start = false;
};

}  // namespace tandem::test
