#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <initializer_list>

namespace tandem::launcher {

/// Detects the hang-up of a terminal to which the launcher writes. A process outside the terminal's
/// session, or in its background, gets no SIGHUP for it.
class terminal_watch {
 public:
  /// Watches those of `descriptors` that are terminals.
  terminal_watch(boost::asio::io_context& loop, std::initializer_list<int> descriptors);

  /// Completes with true when one of them hangs up, with false when cancelled or if there is no
  /// terminal.
  boost::asio::awaitable<bool> hung_up();
  void cancel();

 private:
  /// An epoll descriptor, watched instead of the terminals: Asio would make a terminal non-blocking
  /// for all processes that share it.
  boost::asio::posix::stream_descriptor hangup_;
};

}  // namespace tandem::launcher
