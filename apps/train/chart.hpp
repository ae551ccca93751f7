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
  std::vector<double> y;  ///< a value that is not finite leaves a gap
};

/// A chart of curves over the steps of the run.
struct line_chart {
  std::string title;    ///< for screen readers
  std::string y_label;  ///< including the unit
  bool from_zero = true;
  std::vector<curve> curves;
};

/// One rank's row of the timeline.
struct timeline_row {
  std::string name;
  std::string rank_location;  ///< second line of the label: island, stage
  std::vector<interval> intervals;
};

/// The chart as an SVG element with axes, grid and legend; colours come from classes of the page.
std::string draw(const line_chart& chart);
/// Activities of the ranks over time, milliseconds from the first one; one colour per activity.
std::string draw_timeline(const std::vector<timeline_row>& rows);

}  // namespace tandem::train
