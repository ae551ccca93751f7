// The ranks' output on its way to the launcher's own.
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

/// Errors come as the first value.
inline constexpr auto no_throw = asio::as_tuple(asio::use_awaitable);

/// Reads the ranks' streams and writes them to the launcher's descriptors. A slow reader holds up
/// only the ranks that write to it: what goes to another descriptor, errors above all, passes.
class output_relay {
 public:
  explicit output_relay(asio::io_context& loop) : loop_(loop), drained_(loop) {}
  output_relay(const output_relay&) = delete;
  output_relay& operator=(const output_relay&) = delete;

  /// Called once for each descriptor that takes no more, with the reason; not where its reader is
  /// gone, for then SIGPIPE or SIGHUP says so.
  void on_loss(std::function<void(int target, int number)> handler) {
    lost_handler_ = std::move(handler);
  }
  /// One more stream, from its pipe to `target`. With a prefix: in whole lines that begin with it.
  /// Returns the stream's number.
  std::size_t add(owned_fd from, int target, std::string prefix);
  void start();
  /// The stream's last lines.
  std::string last_words(std::size_t stream) const;

  /// Waits until all is written. A process outside the job may hold a pipe open: it is waited for
  /// only a second.
  asio::awaitable<void> drain();
  /// Writes all of it, on the thread of the target's writer.
  asio::awaitable<void> print(int target, std::string text);
  /// Gives up what is not written yet: its reader does not read, and nobody waits for it.
  void abandon();
  /// Tries again, for what is printed from now on.
  void resume();
  /// Something could not be written for another reason than that nobody reads.
  bool lost_output() const noexcept { return !lost_.empty(); }

 private:
  struct stream {
    stream(asio::io_context& loop, owned_fd from, int to, std::string prefix)
        : pipe(loop, from.release()), target(to), prefixed(!prefix.empty()), lines(prefix) {}
    asio::posix::stream_descriptor pipe;
    int target;
    bool prefixed;
    line_prefixer lines;
    launcher::last_words words;
    std::array<char, 65536> bytes;
  };

  asio::awaitable<void> relay(stream& from);
  output_writer& writer_of(int target);
  void note(int target, int number);

  asio::io_context& loop_;
  asio::steady_timer drained_;  ///< cancelled when the last stream has ended
  std::vector<std::unique_ptr<stream>> streams_;
  std::function<void(int, int)> lost_handler_;
  std::map<int, int> gone_;  ///< targets without a reader
  std::map<int, int> lost_;  ///< targets that refused something, and errno
  std::size_t open_streams_ = 0;
  bool closing_ = false;  ///< reads only what is there
  bool abandoned_ = false;
  std::map<int, std::shared_ptr<output_writer>> writers_;  ///< by target; one for each open file
};

}  // namespace tandem::launcher
