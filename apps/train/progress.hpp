#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace tandem::train {

/// What a step did, as the bar shows it.
struct progress_state {
  std::string label;        ///< what runs: "4 ranks", "one process"
  int step = 0;             ///< steps done
  int steps = 0;            ///< steps in all
  double loss = 0;          ///< mean cross entropy of the last step, nats per token
  double tokens_per_s = 0;  ///< over the last seconds
  double wait_share = -1;   ///< of the time, waiting for communication; below 0: not shown
  double left_s = -1;       ///< estimate of what remains; below 0: not shown
  std::vector<std::string> rails =
      {};  ///< what they do, in ever shorter forms; empty: there are none
};

/// One line of at most `columns` characters (0: any number), without an end of line. The rails are
/// shown as fully as there is room, before the waiting; the bar takes what room is left.
std::string progress_line(const progress_state& state, int columns);

/// Shows the steps of a run: one line that is rewritten on a terminal, else a line every twentieth
/// of the run.
class progress {
 public:
  /// @param to  shown there; null shows nothing.
  progress(std::FILE* to, std::string label, int steps);
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress();

  /// Gives `progress_state::rails`.
  using rails_source = std::function<std::vector<std::string>()>;
  /// A step is over: its loss, its tokens and the share of it that waited (below 0: unknown).
  /// `rails` is asked where the step is shown.
  void step(double loss, double tokens, double wait_share, const rails_source& rails = {});
  /// Leaves the line as it stands and goes to the next one. Harmless twice.
  void finish();

 private:
  using clock = std::chrono::steady_clock;

  void show();

  std::FILE* to_;
  bool terminal_;
  int every_;
  progress_state state_;
  clock::time_point start_ = clock::now();
  clock::time_point last_ = start_;
  clock::time_point shown_{};
  bool open_ = false;  ///< a line is on the terminal and not yet ended
};

}  // namespace tandem::train
