#include "svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem::train {

void range::include(double value) {
  if (!std::isfinite(value)) return;
  low = std::min(low, value);
  high = std::max(high, value);
}

std::string escape(std::string_view text) {
  std::string safe;
  for (const char c : text) {
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

std::vector<double> nice_ticks(double low, double high, int requested) {
  const double span = high > low ? high - low : std::max(std::abs(high), 1.0);
  const double rough = span / std::max(requested, 1);
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

std::string open_svg(double height, std::string_view title) {
  return fmt::format("<svg viewBox='0 0 {:.0f} {:.0f}' role='img' aria-label='{}'>", svg_width,
                     height, escape(title));
}

std::string svg_text(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>", x, y, anchor,
                     escape(text));
}

std::string y_axis(const plot_area& in, const range& y, std::string_view label) {
  std::string svg;
  for (const double tick : nice_ticks(y.low, y.high, 5)) {
    if (tick < y.low - 1e-12 * std::abs(y.low) || tick > y.high) continue;
    const double at = in.y(y.share(tick));
    svg += fmt::format("<path class='grid' d='M{:.1f} {:.1f}H{:.1f}'/>", in.left, at, in.right);
    svg += svg_text(in.left - 8, at + 4, "end", tick_text(tick));
  }
  return svg + fmt::format(
                   "<text class='axis' transform='translate({:.1f} {:.1f}) rotate(-90)' "
                   "text-anchor='middle'>{}</text>",
                   in.left - 56, in.y(0.5), escape(label));
}

std::string curve_path(const plot_area& in, const range& y, std::span<const double> values,
                       std::string_view style) {
  std::string d;
  std::size_t drawn = 0;  // values in the current segment
  const auto end_piece = [&d, &drawn] {
    if (drawn == 1) d += "h0";
    drawn = 0;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      end_piece();
      continue;
    }
    const double share =
        values.size() > 1 ? static_cast<double>(i) / static_cast<double>(values.size() - 1) : 0.5;
    d += fmt::format("{}{:.1f} {:.1f}", drawn > 0 ? 'L' : 'M', in.x(share),
                     in.y(y.share(values[i])));
    ++drawn;
  }
  end_piece();
  return fmt::format("<path class='curve {}' d='{}'/>", style, d);
}

}  // namespace tandem::train
