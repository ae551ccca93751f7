#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace tandem::train {

/// State of a run as the progress line shows it.
struct progress_state {
  std::string label;        ///< the run: "4 ranks", "one process"
  int step = 0;             ///< steps done
  int steps = 0;            ///< total steps
  double loss = 0;          ///< mean cross entropy of the last step, nats per token
  double tokens_per_s = 0;  ///< smoothed over the last steps
  double wait_share = -1;   ///< share of time waiting for communication; below 0: not shown
  double left_s = -1;       ///< estimated time left; below 0: not shown
  std::vector<std::string> rails = {};  ///< state of the rails, longest form first; empty: no rails
};

/// One line of at most `columns` characters (0: unlimited), without a newline. The rails are shown
/// in the longest form that fits, with priority over the waiting share; the bar takes the rest.
std::string progress_line(const progress_state& state, int columns);

/// Shows the progress of a run: on a terminal one line that is rewritten, else a line for every
/// twentieth of the run.
class progress {
 public:
  /// @param to  output stream; null: no output
  /// @param done  steps that an earlier part of the run has done
  progress(std::FILE* to, std::string label, int steps, int done = 0);
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress();

  /// Returns `progress_state::rails`.
  using rails_source = std::function<std::vector<std::string>()>;
  /// Records a completed step: its loss, its tokens and the share of it spent waiting (below 0:
  /// unknown). `rails` is called only if the step is shown.
  void step(double loss, double tokens, double wait_share, const rails_source& rails = {});
  /// Ends the current line. Idempotent.
  void finish();

 private:
  using clock = std::chrono::steady_clock;

  void show();
  void write(const std::string& text);

  std::FILE* to_;
  bool terminal_;
  int every_;
  int done_before_;
  progress_state state_;
  clock::time_point start_ = clock::now();
  clock::time_point last_ = start_;
  clock::time_point shown_{};
  bool open_ = false;  ///< the terminal shows a line without a newline
};

}  // namespace tandem::train
