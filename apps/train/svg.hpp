#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::train {

/// Width of a drawing in units; the page scales it to the column.
inline constexpr double svg_width = 960;

/// Minimum and maximum of the given values. Values that are not finite are ignored.
struct range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value);
  /// 0 at low, 1 at high.
  double share(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

/// The area of a chart inside its axes, in units of the drawing; y grows downwards.
struct plot_area {
  double left = 0, right = 0, top = 0, bottom = 0;

  double width() const noexcept { return right - left; }
  double height() const noexcept { return bottom - top; }
  double x(double share) const noexcept { return left + share * width(); }
  double y(double share) const noexcept { return bottom - share * height(); }
};

/// Replaces the five special characters of HTML and XML by entities.
std::string escape(std::string_view text);
/// Round numbers that cover low to high in about `requested` steps. @pre low <= high, both finite.
std::vector<double> nice_ticks(double low, double high, int requested);
/// A number as an axis label: 0.25, 12k, 3e-07.
std::string tick_text(double value);

/// The opening tag of a drawing; `title` is for screen readers.
std::string open_svg(double height, std::string_view title);
/// @param anchor  "start", "middle" or "end": which point of the text is at x
std::string svg_text(double x, double y, std::string_view anchor, std::string_view text);
/// Grid, numbers and label of the vertical axis.
std::string y_axis(const plot_area& in, const range& y, std::string_view label);
/// Values at equal distances from left to right as a path; a value that is not finite leaves a gap,
/// and an isolated value is a dot.
std::string curve_path(const plot_area& in, const range& y, std::span<const double> values,
                       std::string_view style);

}  // namespace tandem::train
