#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>

namespace tandem::rails {

namespace asio = boost::asio;

/// Hears from the kernel, over rtnetlink, when an interface of this network namespace loses its
/// link, is switched off or vanishes: some tens of microseconds after the kernel knows, where
/// silence on a rail needs `settings::rail_timeout` to be believed.
///
/// Where the kernel gives no such socket, it stays silent: the heartbeats judge alone.
class carrier_watch {
 public:
  /// With the interface's index; called on the executor.
  using handler = std::function<void(int index)>;

  carrier_watch(asio::any_io_executor executor, handler on_lost);
  /// No call after it.
  ~carrier_watch();
  carrier_watch(const carrier_watch&) = delete;
  carrier_watch& operator=(const carrier_watch&) = delete;

  bool is_watching() const noexcept;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace tandem::rails
