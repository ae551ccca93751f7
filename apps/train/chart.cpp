#include "chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::train {
namespace {

// One drawing is 960 units wide; the page scales it to the column.
constexpr double width = 960, height = 300;
constexpr double left = 70, right = 16, top = 14, bottom = 46;

struct range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void take(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double share(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

std::string text(double x, double y, std::string_view anchor, std::string_view words) {
  return fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>", x, y, anchor,
                     escape(words));
}

std::string open_svg(double svg_height, std::string_view title) {
  return fmt::format("<svg viewBox='0 0 {:.0f} {:.0f}' role='img' aria-label='{}'>", width,
                     svg_height, escape(title));
}

/// The curve as a path; a value that is not finite ends a piece of it.
std::string path(const curve& c, std::size_t steps, const range& y) {
  std::string d;
  bool pen_down = false;
  for (std::size_t i = 0; i < c.y.size(); ++i) {
    if (!std::isfinite(c.y[i])) {
      pen_down = false;
      continue;
    }
    const double x_share =
        steps > 1 ? static_cast<double>(i) / static_cast<double>(steps - 1) : 0.5;
    d += fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M',
                     left + x_share * (width - left - right),
                     height - bottom - y.share(c.y[i]) * (height - top - bottom));
    pen_down = true;
  }
  return fmt::format("<path class='curve {}' d='{}'/>", c.style, d);
}

std::string y_axis(const range& y, const std::string& label) {
  std::string svg;
  for (const double tick : nice_ticks(y.low, y.high, 5)) {
    if (tick < y.low - 1e-12 * std::abs(y.low) || tick > y.high) continue;
    const double at = height - bottom - y.share(tick) * (height - top - bottom);
    svg += fmt::format("<path class='grid' d='M{:.1f} {:.1f}H{:.1f}'/>", left, at, width - right);
    svg += text(left - 8, at + 4, "end", tick_text(tick));
  }
  const double middle = top + (height - top - bottom) / 2;
  svg += fmt::format(
      "<text class='axis' transform='translate(14 {:.1f}) rotate(-90)' "
      "text-anchor='middle'>{}</text>",
      middle, escape(label));
  return svg;
}

std::string x_axis(std::size_t steps) {
  std::string svg = fmt::format("<path class='frame' d='M{:.1f} {:.1f}H{:.1f}'/>", left,
                                height - bottom, width - right);
  for (const double tick : nice_ticks(1, static_cast<double>(std::max<std::size_t>(steps, 1)), 8)) {
    const double step = tick < 1 ? 1 : tick;  // the axis starts with step 1, not 0
    if (step > static_cast<double>(steps) || step != std::floor(step)) continue;
    const double share = steps > 1 ? (step - 1) / static_cast<double>(steps - 1) : 0.5;
    svg += text(left + share * (width - left - right), height - bottom + 18, "middle",
                fmt::format("{:.0f}", step));
  }
  return svg + "<text class='axis' x='" + fmt::format("{:.1f}", left + (width - left - right) / 2) +
         "' y='" + fmt::format("{:.1f}", height - 6) + "' text-anchor='middle'>step</text>";
}

}  // namespace

std::string escape(std::string_view words) {
  std::string safe;
  for (const char c : words) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::vector<double> nice_ticks(double low, double high, int wanted) {
  const double span = high > low ? high - low : std::max(std::abs(high), 1.0);
  const double rough = span / std::max(wanted, 1);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * 0.999) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::floor(low / step);
  for (double n = first; n * step < high + step * 0.999; n += 1) ticks.push_back(n * step);
  return ticks;
}

std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size < 1e-300) return "0";
  if (size >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

std::string draw(const line_chart& chart) {
  range y;
  std::size_t steps = 0;
  for (const curve& c : chart.curves) {
    steps = std::max(steps, c.y.size());
    for (const double value : c.y) y.take(value);
  }
  if (steps == 0 || y.low > y.high) return "<p class='quiet'>nothing was measured</p>";
  if (chart.from_zero) y.take(0);
  const std::vector<double> ticks = nice_ticks(y.low, y.high, 5);
  y.take(ticks.front());
  y.take(ticks.back());

  std::string svg = open_svg(height, chart.title) + y_axis(y, chart.y_label) + x_axis(steps);
  for (const curve& c : chart.curves) svg += path(c, steps, y);
  std::string legend;
  for (const curve& c : chart.curves) {
    legend += fmt::format(
        "<span><svg class='key' viewBox='0 0 28 10'><path class='curve {}' "
        "d='M1 5H27'/></svg>{}</span>",
        c.style, escape(c.name));
  }
  return svg + "</svg><p class='legend'>" + legend + "</p>";
}

std::string draw_lanes(const std::vector<lane>& lanes) {
  constexpr double lane_height = 46, bar_height = 26, label = 150;
  range t;
  for (const lane& one : lanes) {
    for (const moment& m : one.moments) {
      t.take(m.begin_us);
      t.take(m.end_us);
    }
  }
  if (t.low > t.high) return "<p class='quiet'>no step was recorded</p>";
  const double svg_height = top + lane_height * static_cast<double>(lanes.size()) + bottom;
  const auto x = [&t](double us) { return label + t.share(us) * (width - label - right); };

  std::string svg = open_svg(svg_height, "what each rank did, over time");
  const double span_ms = (t.high - t.low) / 1000;
  for (const double tick : nice_ticks(0, span_ms, 10)) {
    if (tick > span_ms) continue;
    const double at = x(t.low + tick * 1000);
    svg +=
        fmt::format("<path class='grid' d='M{:.1f} {:.1f}V{:.1f}'/>", at, top, svg_height - bottom);
    svg += text(at, svg_height - bottom + 18, "middle", tick_text(tick));
  }
  svg +=
      fmt::format("<text class='axis' x='{:.1f}' y='{:.1f}' text-anchor='middle'>time, ms</text>",
                  label + (width - label - right) / 2, svg_height - 6);
  double y = top;
  for (const lane& one : lanes) {
    svg += fmt::format("<text class='strong' x='0' y='{:.1f}'>{}</text>", y + 17, escape(one.name));
    svg += text(0, y + 32, "start", one.place);
    svg += fmt::format("<rect class='idle' x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}'/>",
                       label, y + 8, width - label - right, bar_height);
    for (const moment& m : one.moments) {
      const std::string which =
          m.micro_batch < 0 ? "" : fmt::format(", micro-batch {}", m.micro_batch);
      svg += fmt::format(
          "<rect class='a{}' x='{:.2f}' y='{:.1f}' width='{:.2f}' height='{:.1f}'>"
          "<title>{}: {}{}, {:.2f} ms</title></rect>",
          static_cast<int>(m.what), x(m.begin_us), y + 8,
          std::max(0.3, x(m.end_us) - x(m.begin_us)), bar_height, escape(one.name), name(m.what),
          which, (m.end_us - m.begin_us) / 1000);
    }
    y += lane_height;
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
