#include "child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace tandem::test {
namespace {

using clock = std::chrono::steady_clock;

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The variables of a process, each with a zero before and after it; empty for a zombie.
std::string variables_of(pid_t id) {
  return std::string(1, '\0') + read_file("/proc/" + std::to_string(id) + "/environ");
}

bool has(const std::string& variables, const std::string& variable) {
  return variables.find('\0' + variable + '\0') != std::string::npos;
}

seconds left_until(clock::time_point deadline) {
  return std::max(seconds(0), seconds(deadline - clock::now()));
}
clock::time_point deadline_after(seconds limit) {
  return clock::now() + std::chrono::duration_cast<clock::duration>(limit);
}

/// A null-terminated array of C strings.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

child::child(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  static std::atomic<int> number = 0;
  mark_ = "FAMILY_OF_TEST=" + std::to_string(getpid()) + "." + std::to_string(++number);
  std::vector<std::string> variables = environment;
  variables.push_back(mark_);
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  std::vector<std::string> arguments = command;

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_addopen(&streams, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&streams, ends[1], 1);
  posix_spawn_file_actions_adddup2(&streams, ends[1], 2);
  const int failed = posix_spawn(&id_, arguments[0].c_str(), &streams, nullptr,
                                 pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&streams);
  close(ends[1]);
  read_end_ = ends[0];
  if (failed != 0) throw std::runtime_error(arguments[0] + ": " + std::strerror(failed));
}

child::~child() {
  for (const pid_t one : family()) kill(one, SIGKILL);
  if (!reaped_) waitpid(id_, nullptr, 0);
  close(read_end_);
}

bool child::read_some(seconds limit) {
  if (ended_) return false;
  pollfd ready{read_end_, POLLIN, 0};
  if (poll(&ready, 1, static_cast<int>(limit.count() * 1000)) <= 0) return true;
  char block[4096];
  const ssize_t bytes = read(read_end_, block, sizeof block);
  ended_ = bytes <= 0;
  if (!ended_) output_.append(block, static_cast<std::size_t>(bytes));
  return !ended_;
}

bool child::wait_for_output(const std::string& text, seconds limit) {
  const clock::time_point deadline = deadline_after(limit);
  while (output_.find(text) == std::string::npos) {
    if (clock::now() >= deadline || !read_some(left_until(deadline))) return false;
  }
  return true;
}

bool child::wait_for_end(seconds limit) {
  const clock::time_point deadline = deadline_after(limit);
  while (read_some(left_until(deadline))) {
    if (clock::now() >= deadline) return false;
  }
  // All of its output has ended, so only its exit remains.
  int status = 0;
  while (!reaped_ && waitpid(id_, &status, WNOHANG) != id_) {
    if (clock::now() >= deadline) return false;
    std::this_thread::yield();
  }
  if (!reaped_) status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  reaped_ = true;
  return true;
}

std::vector<pid_t> child::family() const {
  std::vector<pid_t> result;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t id = std::atoi(entry.path().filename().c_str());
    if (id > 0 && has(variables_of(id), mark_)) result.push_back(id);
  }
  return result;
}

pid_t child::rank(int rank, seconds limit) const {
  const clock::time_point deadline = deadline_after(limit);
  do {
    for (const pid_t id : family()) {
      if (has(variables_of(id), "TANDEM_RANK=" + std::to_string(rank))) return id;
    }
    std::this_thread::yield();
  } while (clock::now() < deadline);
  return -1;
}

}  // namespace tandem::test
