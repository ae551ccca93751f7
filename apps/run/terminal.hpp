#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <initializer_list>

namespace tandem::launcher {

/// Hears that a terminal which the launcher writes to is gone. A process outside the terminal's
/// session, or in its background, gets no SIGHUP for that.
class terminal_watch {
 public:
  /// Watches those of `descriptors` that are terminals.
  terminal_watch(boost::asio::io_context& loop, std::initializer_list<int> descriptors);

  /// Completes with true when one of them is gone, with false once cancelled or where there is
  /// none.
  boost::asio::awaitable<bool> hung_up();
  void cancel();

 private:
  /// Of epoll, watched in their place: Asio would make the terminal itself non-blocking, for
  /// everybody who shares it.
  boost::asio::posix::stream_descriptor changes_;
};

}  // namespace tandem::launcher
