#pragma once

#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <tandem/channels.hpp>
#include <tandem/kernel_messages.hpp>

#include "collectives/job.hpp"
#include "support/device_mirror.hpp"

namespace tandem::test {

/// Device of the double that holds a rank's memory; negative: host.
using device_of_rank = int (*)(int rank);

inline int every_other_device(int rank) {
  return rank % 2;
}
/// Ranks of one call may use different kinds of memory.
inline int device_or_host(int rank) {
  return rank % 3 - 1;
}

/// What is relayed is complete some time behind its kernel.
inline asio::awaitable<void> passes(const kernel_messages::end& which, bool at_once) {
  asio::steady_timer later(co_await asio::this_coro::executor);
  for (int i = 0; i < 10'000 && !at_once && !which.has_passed(); ++i) {
    later.expires_after(std::chrono::milliseconds(1));
    co_await later.async_wait(asio::use_awaitable);
  }
  EXPECT_TRUE(which.has_passed());
}

/// One per rank; null on the host.
struct rank_mirrors {
  std::vector<std::unique_ptr<device_mirror>> mirrors;
};

/// A job whose channels carry device memory and whose ranks have their views on devices. @pre the
/// devices exist.
class device_job : private rank_mirrors, public job {  // destroys the io_context first
 public:
  device_job(int ranks, const settings& options, device_of_rank where) : job(ranks, options) {
    take_devices(options, where);
  }
  /// Over the channels of `over`.
  device_job(const fabric_kind& over, int ranks, const settings& options, device_of_rank where)
      : job(over, ranks, options) {
    take_devices(options, where);
  }
  /// The rank's copy of this host view; a device copy holds the bytes of the first request.
  template <class View>
  View there(int rank, View here) {
    const auto& mirror = mirrors[static_cast<std::size_t>(rank)];
    return mirror ? View(mirror->there(here)) : here;
  }
  /// Runs so many handlers of the loop at most; whether all ranks have ended.
  bool step(int handlers) {
    for (int i = 0; i < handlers && running > 0; ++i) context.run_one_for(std::chrono::seconds(10));
    return running == 0;
  }
  /// Copies all views back to the host and drops the device copies.
  void copy_back() {
    for (const auto& each : mirrors) {
      if (each) each->copy_back();
    }
  }

 private:
  void take_devices(const settings& options, device_of_rank where) {
    worlds.clear();
    for (auto& each : fabrics) each = devices::make_fabric(std::move(each), options);
    for (const auto& each : fabrics)
      worlds.push_back(std::make_unique<communicator>(*each, options));
    for (int r = 0; r < size(); ++r) {
      mirrors.push_back(where(r) < 0 ? nullptr : std::make_unique<device_mirror>(where(r)));
    }
  }
};

}  // namespace tandem::test
