#include <fmt/format.h>

#include <algorithm>

#include "rail_log.hpp"
#include "rail_tracks.hpp"
#include "svg.hpp"

namespace tandem::train {
namespace {

constexpr std::size_t colours = 8;
constexpr std::size_t max_label = 24;  // characters that fit to the left of a bar
constexpr double bar_height = 12, row_height = 22, axis_height = 46;
constexpr double label_width = 170, plot_height = 240;

constexpr const char* legend =
    "<p class='legend'><span><i class='swatch f0'></i>up</span>"
    "<span><i class='swatch f0 pale'></i>suspect: silent for a while</span>"
    "<span><i class='swatch lost'></i>lost: its undelivered data was resent on the other "
    "rails</span>"
    "</p>";

struct unit {
  double bytes_per_s;
  const char* name;
};

unit unit_for(double max_bytes_per_s) {
  if (max_bytes_per_s >= 1e9) return {1e9, "GB/s, both directions"};
  if (max_bytes_per_s >= 1e6) return {1e6, "MB/s, both directions"};
  return {1e3, "kB/s, both directions"};
}

std::string shortened(const std::string& label) {
  return label.size() <= max_label ? label : label.substr(0, max_label - 1) + "…";
}

bool is_same_state(const rail_track::part& a, const rail_track::part& b) {
  return a.rails == b.rails && a.lost == b.lost && a.worst == b.worst;
}

std::string part_state_text(const rail_track::part& p) {
  if (p.lost == 0 || p.lost == p.rails) return std::string(name(p.worst));
  return fmt::format("{} of {} rails lost", p.lost, p.rails);
}

std::string rectangle(std::string_view style, double from, double to, double y, double height,
                      std::string_view title) {
  return fmt::format(
      "<rect class='{}' x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}'>"
      "<title>{}</title></rect>",
      style, from, y, to - from, height, escape(title));
}

/// Consecutive parts of the same state as one rectangle: grey where all rails of the track were
/// lost, lower half grey where some were.
std::string state_bar(const rail_track& track, std::size_t number, double part_s,
                      const plot_area& in, double y) {
  std::string svg;
  const auto count = static_cast<double>(track.parts.size());
  for (std::size_t i = 0, end = 0; i < track.parts.size(); i = end) {
    const rail_track::part& first = track.parts[i];
    for (end = i + 1; end < track.parts.size() && is_same_state(track.parts[end], first);) ++end;
    if (first.rails == 0) continue;
    const double from = in.x(static_cast<double>(i) / count);
    const double to = in.x(static_cast<double>(end) / count);
    const std::string state = part_state_text(first);
    const std::string title =
        fmt::format("{}: {}, {:.1f} to {:.1f} s", track.name, state,
                    static_cast<double>(i) * part_s, static_cast<double>(end) * part_s);
    const bool pale = first.lost == 0 && first.worst != rail_state::up;
    const std::string colour = fmt::format("f{}{}", number % colours, pale ? " pale" : "");
    if (first.lost < first.rails) svg += rectangle(colour, from, to, y, bar_height, title);
    if (first.lost == 0) continue;
    const double height = first.lost < first.rails ? bar_height / 2 : bar_height;
    svg += rectangle("lost", from, to, y + bar_height - height, height, title);
    if (first.lost < first.rails || to - from < 30) continue;
    svg += fmt::format("<text class='mark' x='{:.1f}' y='{:.1f}' text-anchor='middle'>lost</text>",
                       (from + to) / 2, y + 10);
  }
  return svg;
}

std::string time_axis(const plot_area& in, double span_s, double bottom) {
  std::string svg =
      fmt::format("<path class='frame' d='M{:.1f} {:.1f}H{:.1f}'/>", in.left, in.bottom, in.right);
  for (const double tick : nice_ticks(0, span_s, 10)) {
    if (tick > span_s) continue;
    const double at = in.x(span_s > 0 ? tick / span_s : 0);
    svg += fmt::format("<path class='grid' d='M{:.1f} {:.1f}V{:.1f}'/>", at, in.top, bottom);
    svg += svg_text(at, bottom + 18, "middle", tick_text(tick));
  }
  return svg + fmt::format(
                   "<text class='axis' x='{:.1f}' y='{:.1f}' text-anchor='middle'>"
                   "time, s</text>",
                   in.x(0.5), bottom + 40);
}

/// Stacked areas: the total is the throughput of all tracks, and a lost rail lowers it.
std::string areas(const rail_tracks& what, const plot_area& in, const range& y, double scale) {
  std::vector<double> lower(what.tracks.front().parts.size(), 0.0);
  const auto count = static_cast<double>(lower.size());
  std::string svg;
  for (std::size_t t = what.tracks.size();
       t-- > 0;) {  // the first track on top, in the order of the bars
    const rail_track& track = what.tracks[t];
    std::vector<double> upper = lower;
    for (std::size_t i = 0; i < upper.size(); ++i) upper[i] += track.parts[i].bytes_per_s / scale;
    std::string d;
    // A value is drawn at the middle of its part; the first and last also at the edge of the plot.
    const auto go = [&](double part, double value) {
      d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? 'M' : 'L', in.x(part / count),
                       in.y(y.share(value)));
    };
    go(0, upper.front());
    for (std::size_t i = 0; i < upper.size(); ++i) go(static_cast<double>(i) + 0.5, upper[i]);
    go(count, upper.back());
    go(count, lower.back());
    for (std::size_t i = lower.size(); i-- > 0;) go(static_cast<double>(i) + 0.5, lower[i]);
    go(0, lower.front());
    svg += fmt::format("<path class='f{}' d='{}Z'><title>{}: {}</title></path>", t % colours, d,
                       escape(track.name), bytes_text(track.bytes));
    lower = std::move(upper);
  }
  return svg;
}

/// The highest throughput of all tracks together in any part, bytes per second.
double max_total_rate(const rail_tracks& what) {
  double max_rate = 0;
  for (std::size_t i = 0; i < what.tracks.front().parts.size(); ++i) {
    double sum = 0;
    for (const rail_track& track : what.tracks) sum += track.parts[i].bytes_per_s;
    max_rate = std::max(max_rate, sum);
  }
  return max_rate;
}

}  // namespace

std::string draw_rails(const rail_tracks& what) {
  if (what.tracks.empty() || what.part_s <= 0) return "<p class='quiet'>nothing was measured</p>";
  const double max_rate = max_total_rate(what);
  const unit in_units = unit_for(max_rate);
  range y{0, std::max(max_rate / in_units.bytes_per_s, 1.0)};
  y.include(nice_ticks(0, y.high, 5).back());

  const plot_area plot{label_width, svg_width - 16, 14, 14 + plot_height};
  const double rows = static_cast<double>(what.tracks.size());
  const double bottom = plot.bottom + 8 + rows * row_height;
  const double span_s = what.part_s * static_cast<double>(what.tracks.front().parts.size());
  std::string svg = open_svg(bottom + axis_height, "throughput and state of each rail over time");
  svg += time_axis(plot, span_s, bottom) + y_axis(plot, y, in_units.name);
  svg += areas(what, plot, y, in_units.bytes_per_s);
  for (std::size_t i = 0; i < what.tracks.size(); ++i) {
    const rail_track& track = what.tracks[i];
    const double top = plot.bottom + 12 + static_cast<double>(i) * row_height;
    svg += fmt::format("<g><title>{}: {}</title>", escape(track.name), bytes_text(track.bytes));
    svg += svg_text(label_width - 10, top + 10, "end", shortened(track.name)) + "</g>";
    svg += state_bar(track, i, what.part_s, plot, top);
  }
  return svg + "</svg>" + legend;
}

std::string rail_table(const std::vector<rail_record>& rails,
                       const std::vector<std::size_t>& tracks) {
  std::string rows;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const rail_record& one = rails[i];
    const std::string dot =
        i < tracks.size() ? fmt::format("<i class='dot f{}'></i>", tracks[i] % colours) : "";
    rows += fmt::format(
        "<tr><td>{}{}</td><td>{} - {}</td><td>{} {}</td><td>{} {}</td><td>{}</td><td>{}</td>"
        "<td>{:.1f} %</td><td>{}</td><td>{}</td><td>{}</td><td class='words'>{}</td></tr>\n",
        dot, one.lane, one.first, one.second, escape(one.first_island), escape(one.first_nic),
        escape(one.second_island), escape(one.second_nic),
        bytes_text(static_cast<double>(one.sent)), bytes_text(static_cast<double>(one.received)),
        100 * one.share, name(one.state), one.times_lost, one.epoch,
        one.why_lost.empty() ? "-" : escape(one.why_lost));
  }
  return "<div class='wide'><table><tr><th>rail</th><th>ranks</th><th>NIC</th><th>peer NIC</th>"
         "<th>sent</th><th>received</th><th>share</th><th>final state</th><th>times lost</th>"
         "<th>epoch</th><th>reason of the last loss</th></tr>\n" +
         rows + "</table></div>";
}

}  // namespace tandem::train
