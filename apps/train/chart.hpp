#pragma once

#include <string>
#include <vector>

#include "svg.hpp"
#include "timeline.hpp"

namespace tandem::train {

/// One curve over steps 1, 2, 3, ...
struct curve {
  std::string name;
  std::string style;      ///< class in the page's style sheet
  std::vector<double> y;  ///< what is not finite leaves a gap
};

/// A chart of curves over the steps of the run.
struct line_chart {
  std::string title;    ///< for readers who cannot see it
  std::string y_label;  ///< with its unit
  bool from_zero = true;
  std::vector<curve> curves;
};

/// One rank's swim-lane.
struct lane {
  std::string name;
  std::string place;  ///< second line of the label: island, stage
  std::vector<moment> moments;
};

/// The chart as an SVG element with axes, grid and legend; colours come from classes of the page.
std::string draw(const line_chart& chart);
/// Ranks over time, in milliseconds from the first moment; one colour an activity.
std::string draw_lanes(const std::vector<lane>& lanes);

}  // namespace tandem::train
