#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace tandem::test {

using seconds = std::chrono::duration<double>;

/// A process under test with all its descendants: found by a mark in their environment, ended with
/// this object.
class child {
 public:
  /// Starts `command` with these variables ("NAME=value") beside the inherited ones; both output
  /// streams are read.
  explicit child(const std::vector<std::string>& command,
                 const std::vector<std::string>& environment = {});
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  ~child();

  /// Reads until the output holds `text`. False when the deadline passes or the output ends before.
  bool wait_for_output(const std::string& text, seconds limit);
  /// Reads until every process that holds the output has ended and the child is reaped. False past
  /// the deadline.
  bool wait_for_end(seconds limit);

  /// 0 to 255, or 128 + the signal that ended it. @pre wait_for_end() was true.
  int status() const { return status_; }
  /// What it wrote to both streams so far.
  const std::string& output() const { return output_; }
  pid_t id() const { return id_; }

  /// Living processes with the mark, zombies not counted.
  std::vector<pid_t> family() const;
  /// The process that is rank `rank`, waiting until it is there; -1 past the deadline.
  pid_t rank(int rank, seconds limit) const;

 private:
  /// Reads what is there, waiting up to `limit` for something; false when the output has ended.
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
