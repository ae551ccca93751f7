#pragma once

#include <string>
#include <tandem/channel.hpp>
#include <vector>

#include "cli/output_file.hpp"
#include "perf/options.hpp"
#include "perf/record.hpp"

namespace tandem::perf {

/// Rank 0's two outputs: a table on standard output and lines of JSON in a file.
class report {
 public:
  explicit report(const perf_options& o) : options_(o), json_("--json", o.json) {}
  /// The file keeps its content until the first record.
  /// @par Errors `errc::bad_input`: the file cannot be written, and why.
  void check() const { json_.check(); }
  void print_header(int ranks);
  /// A line of text below the header.
  void print_line(const std::string& what);
  void add(const record& line);
  /// Bytes carried by each rail, if the channel has several.
  void rails(const std::vector<rail_stats>& all);
  /// Call after the last record.
  /// @par Errors `errc::bad_input`: the file could not be written; where the records were saved.
  void finish() { json_.finish(); }

 private:
  const perf_options& options_;
  cli::output_file json_;
};

}  // namespace tandem::perf
