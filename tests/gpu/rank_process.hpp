#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <tandem/async.hpp>
#include <vector>

namespace tandem::test {

/// Runs `work` in a rank's process. Returns 0, or 1 after writing the error to the output.
inline int exit_status_of(boost::asio::awaitable<void> work) {
  boost::asio::io_context loop;
  std::string why;
  boost::asio::co_spawn(loop, std::move(work), [&why](std::exception_ptr failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& caught) {
      why = caught.what();
    }
  });
  run(loop);
  if (!why.empty()) std::cout << why << std::endl;
  return why.empty() ? 0 : 1;
}

/// Another process of this program as one rank: `--rank PART RANK PORT`. The destructor kills it if
/// it still runs.
class rank_process {
 public:
  rank_process(const std::string& part, int me, std::uint16_t port) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    std::vector<std::string> words{"/proc/self/exe", "--rank", part, std::to_string(me),
                                   std::to_string(port)};
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t streams;
    ::posix_spawn_file_actions_init(&streams);
    ::posix_spawn_file_actions_adddup2(&streams, ends[1], 1);
    const int failed =
        ::posix_spawn(&id_, words[0].c_str(), &streams, nullptr, pointers.data(), environ);
    ::posix_spawn_file_actions_destroy(&streams);
    ::close(ends[1]);
    output_ = ends[0];
    if (failed != 0) throw std::runtime_error(std::strerror(failed));
  }
  ~rank_process() {
    if (!is_over_) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
    }
    ::close(output_);
  }
  rank_process(const rank_process&) = delete;
  rank_process& operator=(const rank_process&) = delete;

  void kill() { ::kill(id_, SIGKILL); }
  /// Reads until the output has a line or ends.
  std::string line() {
    std::string text;
    for (char c = 0; ::read(output_, &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }
  /// Whether a line of the output is `word`; the vendor's library may write others.
  bool has_line(const std::string& word) {
    for (std::string one = line(); !one.empty(); one = line()) {
      if (one == word) return true;
    }
    return false;
  }
  std::string rest() {
    std::string text;
    for (char c = 0; ::read(output_, &c, 1) == 1;) text += c;
    return text;
  }
  int wait() {
    int status = 0;
    ::waitpid(id_, &status, 0);
    is_over_ = true;
    return status;
  }

 private:
  pid_t id_ = -1;
  int output_ = -1;
  bool is_over_ = false;
};

}  // namespace tandem::test
