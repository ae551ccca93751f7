#include "progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <tandem/error.hpp>

#include "cli/console.hpp"

namespace tandem::train {
namespace {

constexpr double smoothing = 0.1;  // weight of the latest step in the displayed rate and share
constexpr auto redraw_every = std::chrono::milliseconds(80);

int columns_of(std::FILE* to) {
  winsize size{};
  if (ioctl(fileno(to), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return size.ws_col;
}

std::string rate(double tokens_per_s) {
  if (tokens_per_s >= 1e6) return fmt::format("{:.2f}M tokens/s", tokens_per_s / 1e6);
  if (tokens_per_s >= 1e4) return fmt::format("{:.1f}k tokens/s", tokens_per_s / 1e3);
  return fmt::format("{:.0f} tokens/s", tokens_per_s);
}

std::string bar(int step, int steps, int width) {
  const int full = steps > 0 ? width * std::min(step, steps) / steps : width;
  std::string text(static_cast<std::size_t>(full), '=');
  if (full < width) text += '>';
  text.resize(static_cast<std::size_t>(width), ' ');
  return "[" + text + "]";
}

std::string tail_of(const progress_state& s, bool waiting, const std::string& rails) {
  std::string tail =
      fmt::format("step {}/{}  loss {:.4f}  {}", s.step, s.steps, s.loss, rate(s.tokens_per_s));
  if (waiting && s.wait_share >= 0) tail += fmt::format("  waiting {:.0f} %", 100 * s.wait_share);
  if (s.left_s >= 0 && s.step < s.steps) tail += fmt::format("  {:.0f} s left", s.left_s);
  return rails.empty() ? tail : tail + "  " + rails;
}

/// The most detailed tail that fits into `available` columns; `is_complete`: nothing was omitted.
std::string fitting_tail(const progress_state& s, int available, bool& is_complete) {
  is_complete = true;
  for (const std::string& rails : s.rails) {
    for (const bool waiting : {true, false}) {
      std::string tail = tail_of(s, waiting, rails);
      if (static_cast<int>(tail.size()) <= available) return tail;
      is_complete = false;
    }
  }
  return tail_of(s, true, "");
}

double blend(double old, double fresh) {
  return old <= 0 ? fresh : old + smoothing * (fresh - old);
}

}  // namespace

std::string progress_line(const progress_state& s, int columns) {
  const int indent = static_cast<int>(s.label.size()) + 2;
  const int tail_columns = columns > 0 ? columns - indent : std::numeric_limits<int>::max();
  bool is_complete = true;
  const std::string tail = fitting_tail(s, tail_columns, is_complete);

  const int available = columns - static_cast<int>(s.label.size() + tail.size()) - 6;
  std::string line = s.label + "  ";
  if (is_complete && available >= 8) line += bar(s.step, s.steps, std::min(available, 30)) + "  ";
  line += tail;
  if (columns > 0 && line.size() > static_cast<std::size_t>(columns)) {
    line.resize(static_cast<std::size_t>(columns));
  }
  return line;
}

progress::progress(std::FILE* to, std::string label, int steps, int done)
    : to_(to),
      terminal_(to != nullptr && isatty(fileno(to)) == 1),
      every_(std::max(1, steps / 20)),
      done_before_(done) {
  state_.step = done;
  state_.label = std::move(label);
  state_.steps = steps;
}

progress::~progress() {
  try {
    finish();
  } catch (const error&) {  // a closed pipe ends the run by the next output
  }
}

void progress::step(double loss, double tokens, double wait_share, const rails_source& rails) {
  const clock::time_point at = clock::now();
  const double took_s = std::max(1e-9, std::chrono::duration<double>(at - last_).count());
  last_ = at;
  ++state_.step;
  state_.loss = loss;
  state_.tokens_per_s = blend(state_.tokens_per_s, tokens / took_s);
  state_.wait_share = wait_share < 0 ? -1 : blend(state_.wait_share, wait_share);
  const double elapsed_s = std::chrono::duration<double>(at - start_).count();
  state_.left_s = elapsed_s / (state_.step - done_before_) * (state_.steps - state_.step);
  if (to_ == nullptr) return;

  const bool last = state_.step == state_.steps;
  if (terminal_ ? last || at - shown_ >= redraw_every
                : last || state_.step == done_before_ + 1 || state_.step % every_ == 0) {
    shown_ = at;
    if (rails) state_.rails = rails();
    show();
  }
}

void progress::show() {
  if (terminal_) {
    // Carriage return and "erase to end of line": a shorter text leaves no remainder of a longer
    // one.
    open_ = true;
    write(fmt::format("\r{}\033[K", progress_line(state_, columns_of(to_) - 1)));
  } else {
    write(progress_line(state_, 0) + '\n');
  }
}

void progress::write(const std::string& text) {
  if (to_ == stdout) return cli::print_now(text);
  std::fputs(text.c_str(), to_);
  std::fflush(to_);
}

void progress::finish() {
  if (!open_) return;
  open_ = false;
  write("\n");
}

}  // namespace tandem::train
