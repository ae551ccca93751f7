#pragma once

#include <cstdio>
#include <memory>
#include <tandem/channel.hpp>
#include <vector>

#include "perf/options.hpp"
#include "perf/record.hpp"

namespace tandem::perf {

/// Rank 0's two outputs: a table on standard output and lines of JSON in a file.
class report {
 public:
  /// Opens and empties the file. @par Errors `errc::bad_input`: it cannot be written, and why.
  explicit report(const perf_options& o);
  void head(int ranks);
  /// A line of words under the head.
  void say(const std::string& what);
  void add(const record& line);
  /// What each rail carried, where the channel has several.
  void rails(const std::vector<rail_stats>& all);

 private:
  struct close_file {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  const perf_options& options_;
  std::unique_ptr<std::FILE, close_file> json_;
};

}  // namespace tandem::perf
