#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>

namespace tandem::rails {

namespace asio = boost::asio;

/// Reports, from rtnetlink, that an interface of this network namespace lost its link, was switched
/// off or was removed: some tens of microseconds after the kernel knows, where a silent rail is
/// declared lost only after `settings::rail_timeout`.
///
/// Without such a socket it reports nothing, and only heartbeats detect lost links.
class carrier_watch {
 public:
  /// Called with the interface's index, on the executor.
  using handler = std::function<void(int index)>;

  carrier_watch(asio::any_io_executor executor, handler on_lost);
  /// The handler is not called afterwards.
  ~carrier_watch();
  carrier_watch(const carrier_watch&) = delete;
  carrier_watch& operator=(const carrier_watch&) = delete;

  bool is_watching() const noexcept;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace tandem::rails
