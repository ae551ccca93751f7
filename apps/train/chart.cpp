#include "chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem::train {
namespace {

constexpr double height = 300;
constexpr double right = 16, top = 14, bottom = 46;
constexpr plot_area area{70, svg_width - right, top, height - bottom};

std::string x_axis(std::size_t steps) {
  std::string svg = fmt::format("<path class='frame' d='M{:.1f} {:.1f}H{:.1f}'/>", area.left,
                                area.bottom, area.right);
  for (const double tick : nice_ticks(1, static_cast<double>(std::max<std::size_t>(steps, 1)), 8)) {
    const double step = tick < 1 ? 1 : tick;  // the axis starts with step 1, not 0
    if (step > static_cast<double>(steps) || step != std::floor(step)) continue;
    const double share = steps > 1 ? (step - 1) / static_cast<double>(steps - 1) : 0.5;
    svg += svg_text(area.x(share), area.bottom + 18, "middle", fmt::format("{:.0f}", step));
  }
  return svg +
         fmt::format("<text class='axis' x='{:.1f}' y='{:.1f}' text-anchor='middle'>step</text>",
                     area.x(0.5), height - 6);
}

/// Padded to `steps` values: the curve of a shorter run ends earlier.
std::string curve_of(const curve& c, std::size_t steps, const range& y) {
  std::vector<double> values = c.y;
  values.resize(steps, std::nan(""));
  return curve_path(area, y, values, c.style);
}

}  // namespace

std::string draw(const line_chart& chart) {
  range y;
  std::size_t steps = 0;
  for (const curve& c : chart.curves) {
    steps = std::max(steps, c.y.size());
    for (const double value : c.y) y.include(value);
  }
  if (steps == 0 || y.low > y.high) return "<p class='quiet'>nothing was measured</p>";
  if (chart.from_zero) y.include(0);
  const std::vector<double> ticks = nice_ticks(y.low, y.high, 5);
  y.include(ticks.front());
  y.include(ticks.back());

  std::string svg = open_svg(height, chart.title) + y_axis(area, y, chart.y_label) + x_axis(steps);
  for (const curve& c : chart.curves) svg += curve_of(c, steps, y);
  std::string legend;
  for (const curve& c : chart.curves) {
    legend += fmt::format(
        "<span><svg class='key' viewBox='0 0 28 10'><path class='curve {}' "
        "d='M1 5H27'/></svg>{}</span>",
        c.style, escape(c.name));
  }
  return svg + "</svg><p class='legend'>" + legend + "</p>";
}

std::string draw_timeline(const std::vector<timeline_row>& rows) {
  constexpr double row_height = 46, bar_height = 26, label = 150;
  range t;
  for (const timeline_row& one : rows) {
    for (const interval& m : one.intervals) {
      t.include(m.begin_us);
      t.include(m.end_us);
    }
  }
  if (t.low > t.high) return "<p class='quiet'>no step was recorded</p>";
  const double svg_height = top + row_height * static_cast<double>(rows.size()) + bottom;
  const auto x = [&t](double us) { return label + t.share(us) * (svg_width - label - right); };

  std::string svg = open_svg(svg_height, "activity of each rank over time");
  const double span_ms = (t.high - t.low) / 1000;
  for (const double tick : nice_ticks(0, span_ms, 10)) {
    if (tick > span_ms) continue;
    const double at = x(t.low + tick * 1000);
    svg +=
        fmt::format("<path class='grid' d='M{:.1f} {:.1f}V{:.1f}'/>", at, top, svg_height - bottom);
    svg += svg_text(at, svg_height - bottom + 18, "middle", tick_text(tick));
  }
  svg +=
      fmt::format("<text class='axis' x='{:.1f}' y='{:.1f}' text-anchor='middle'>time, ms</text>",
                  label + (svg_width - label - right) / 2, svg_height - 6);
  double y = top;
  for (const timeline_row& one : rows) {
    svg += fmt::format("<text class='strong' x='0' y='{:.1f}'>{}</text>", y + 17, escape(one.name));
    svg += svg_text(0, y + 32, "start", one.rank_location);
    svg += fmt::format("<rect class='idle' x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}'/>",
                       label, y + 8, svg_width - label - right, bar_height);
    for (const interval& m : one.intervals) {
      const std::string which =
          m.micro_batch < 0 ? "" : fmt::format(", micro-batch {}", m.micro_batch);
      svg += fmt::format(
          "<rect class='a{}' x='{:.2f}' y='{:.1f}' width='{:.2f}' height='{:.1f}'>"
          "<title>{}: {}{}, {:.2f} ms</title></rect>",
          static_cast<int>(m.what), x(m.begin_us), y + 8,
          std::max(0.3, x(m.end_us) - x(m.begin_us)), bar_height, escape(one.name), name(m.what),
          which, (m.end_us - m.begin_us) / 1000);
    }
    y += row_height;
  }
  std::string legend;
  for (std::size_t i = 0; i < activity_count; ++i) {
    legend += fmt::format(
        "<span><svg class='key' viewBox='0 0 28 10'><rect class='a{}' width='28' "
        "height='10'/></svg>{}</span>",
        i, name(static_cast<activity>(i)));
  }
  return svg + "</svg><p class='legend'>" + legend + "</p>";
}

}  // namespace tandem::train
