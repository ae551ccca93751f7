#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace tandem::test {

using seconds = std::chrono::duration<double>;

/// A process under test with all its descendants, which are found by a mark in their environment
/// and killed by the destructor.
class child {
 public:
  /// Starts `command` with these variables ("NAME=value") in addition to the inherited ones; both
  /// output streams are read.
  explicit child(const std::vector<std::string>& command,
                 const std::vector<std::string>& environment = {});
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  ~child();

  /// Reads until the output contains `text`. False if the deadline passes or the output ends first
  bool wait_for_output(const std::string& text, seconds limit);
  /// Reads until every process that holds the output has exited and the child is reaped. False
  /// after the deadline.
  bool wait_for_end(seconds limit);

  /// 0 to 255, or 128 + the signal that ended it. @pre wait_for_end() was true.
  int status() const { return status_; }
  /// Output on both streams so far.
  const std::string& output() const { return output_; }
  pid_t id() const { return id_; }

  /// Running processes with the mark, without zombies.
  std::vector<pid_t> family() const;
  /// Waits for the process of rank `rank`; -1 after the deadline.
  pid_t rank(int rank, seconds limit) const;

 private:
  /// Reads available output, waiting up to `limit`; false when the output has ended.
  bool read_some(seconds limit);

  std::string mark_;
  pid_t id_ = -1;
  int read_end_ = -1;
  bool ended_ = false;
  bool reaped_ = false;
  int status_ = -1;
  std::string output_;
};

}  // namespace tandem::test
