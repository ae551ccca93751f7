// Relays the output of the ranks to the launcher's descriptors.
#pragma once

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "output.hpp"
#include "output_writer.hpp"
#include "process.hpp"

namespace tandem::launcher {
namespace asio = boost::asio;

/// Completion token that returns the error as the first value.
inline constexpr auto no_throw = asio::as_tuple(asio::use_awaitable);

/// Reads the ranks' streams and writes them to the launcher's descriptors. A slow reader delays
/// only the ranks that write to its descriptor; others, such as standard error, are not delayed.
class output_relay {
 public:
  /// @param closing_stops  a reader that closes its pipe stops the job, by SIGPIPE
  output_relay(asio::io_context& loop, bool closing_stops)
      : loop_(loop), closing_stops_(closing_stops), drained_(loop) {}
  output_relay(const output_relay&) = delete;
  output_relay& operator=(const output_relay&) = delete;

  /// Called once, with errno, for each descriptor that fails. A terminal that has hung up is not
  /// reported here, but by SIGHUP.
  void on_loss(std::function<void(int target, int number)> handler) {
    loss_handler_ = std::move(handler);
  }
  /// Adds a stream from its pipe to `target`. With a prefix, whole lines are written, each with the
  /// prefix. Returns the stream's number.
  std::size_t add(owned_fd from, int target, std::string prefix);
  void start();
  /// The stream's last lines.
  std::string last_lines(std::size_t stream) const;

  /// Waits until everything is written; at most one second for a process outside the job that holds
  /// a pipe open.
  asio::awaitable<void> drain();
  /// Writes all of `text` on the thread of the target's writer.
  asio::awaitable<void> print(int target, std::string text);
  /// Discards what is not written yet, because its reader does not read.
  void abandon();
  /// Accepts output again.
  void resume();
  /// True if a write failed for another reason than a reader that stops the job, or a terminal that
  /// has hung up.
  bool lost_output() const noexcept { return !failed_targets_.empty(); }

 private:
  struct stream {
    stream(asio::io_context& loop, owned_fd from, int to, std::string prefix)
        : pipe(loop, from.release()), target(to), prefixed(!prefix.empty()), lines(prefix) {}
    asio::posix::stream_descriptor pipe;
    int target;
    bool prefixed;
    line_prefixer lines;
    launcher::last_lines last_output;
    std::array<char, 65536> bytes;
  };

  asio::awaitable<void> relay(stream& from);
  output_writer& writer_of(int target);
  void record_loss(int target, int number);

  asio::io_context& loop_;
  const bool closing_stops_;
  asio::steady_timer drained_;  ///< cancelled when the last stream has ended
  std::vector<std::unique_ptr<stream>> streams_;
  std::function<void(int, int)> loss_handler_;
  std::map<int, int> closed_targets_;  ///< targets whose reader has closed
  std::map<int, int> failed_targets_;  ///< targets whose writes failed, with errno
  std::size_t open_streams_ = 0;
  bool closing_ = false;  ///< read only what is buffered in the pipes
  bool abandoned_ = false;
  std::map<int, std::shared_ptr<output_writer>> writers_;  ///< by target; one for each open file
};

}  // namespace tandem::launcher
