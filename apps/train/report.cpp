#include "report.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <tandem/error.hpp>

#include "rail_tracks.hpp"
#include "report_style.hpp"

namespace tandem::train {
namespace {

constexpr double min_window_s = 0.5;  // like the rate of the progress line

std::string section(std::string_view heading, std::string_view description,
                    const std::string& body) {
  return fmt::format("<section><h2>{}</h2>\n<p class='quiet'>{}</p>\n{}\n</section>\n", heading,
                     description, body);
}

std::string summary_table(const report& page) {
  std::string rows;
  for (const auto& [key, value] : page.summary) {
    rows +=
        fmt::format("<tr><th scope='row'>{}</th><td>{}</td></tr>\n", escape(key), escape(value));
  }
  return "<table class='summary'>" + rows + "</table>";
}

std::string percent(double part, double total) {
  return total > 0 ? fmt::format("{:.1f} %", 100 * part / total) : "-";
}

std::string rank_table(const std::vector<rank_record>& ranks) {
  std::string head =
      "<th>rank</th><th>island</th><th>position</th><th>layers</th><th>parameters</th>";
  for (std::size_t i = 0; i < activity_count; ++i) {
    head += fmt::format("<th><i class='dot a{}'></i>{}</th>", i, name(static_cast<activity>(i)));
  }
  std::string rows;
  for (const rank_record& rank : ranks) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
                        escape(rank.name), escape(rank.island), escape(rank.rank_location),
                        escape(rank.layers), rank.parameters);
    for (const double seconds : rank.seconds) {
      rows += "<td>" + percent(seconds, rank.elapsed_s) + "</td>";
    }
    rows += "</tr>\n";
  }
  return "<div class='wide'><table><tr>" + head + "</tr>\n" + rows + "</table></div>";
}

std::vector<double> rates(const history& run) {
  std::vector<double> result;
  for (std::size_t i = 0; i < run.step_s.size(); ++i) {
    result.push_back(run.step_s[i] > 0 ? run.tokens[i] / run.step_s[i] : NAN);
  }
  return result;
}

std::string loss_section(const report& page) {
  line_chart chart{"loss by step", "loss, nats per token", false, {}};
  if (!page.reference.loss.empty()) {
    chart.curves.push_back({"one process", "reference", page.reference.loss});
  }
  chart.curves.push_back({"all ranks together", "joint", page.joint.loss});
  return section(
      "Loss",
      page.reference.loss.empty()
          ? "Mean cross-entropy of each step's batch."
          : "Mean cross-entropy of each step's batch. The thin line covers the broad one where "
            "both runs agree.",
      draw(chart));
}

std::string difference_section(const report& page) {
  if (page.reference.loss.empty()) return {};
  std::vector<double> difference;
  bool any = false;
  for (std::size_t i = 0; i < std::min(page.joint.loss.size(), page.reference.loss.size()); ++i) {
    difference.push_back((page.joint.loss[i] - page.reference.loss[i]) / page.reference.loss[i]);
    any = any || difference.back() != 0;
  }
  if (!any) {
    return section("Difference", "The losses of both runs are the same bits at every step.", {});
  }
  return section(
      "Difference",
      "Difference between the loss of all ranks and that of one process, relative to the latter. "
      "Replicas sum gradients in a different order than one process does; pipelining changes no "
      "bit.",
      draw({"relative difference by step",
            "relative difference",
            true,
            {{"difference", "joint", std::move(difference)}}}));
}

std::string speed_section(const report& page) {
  line_chart chart{"tokens per second by step", "tokens per second", true, {}};
  if (!page.reference.loss.empty()) {
    chart.curves.push_back({"one process", "reference", rates(page.reference)});
  }
  chart.curves.push_back({"all ranks together", "joint", rates(page.joint)});
  return section("Speed", "Rate of each step; other load on the machine shows as dips.",
                 draw(chart));
}

/// Mean step time.
double step_s(const history& run) {
  if (run.step_s.empty()) return 0;
  return std::accumulate(run.step_s.begin(), run.step_s.end(), 0.0) /
         static_cast<double>(run.step_s.size());
}

std::string rails_section(const report& page) {
  if (page.rails.empty()) return {};
  const std::vector<rail_record> shown = rails_to_show(page.rails);
  // Two steps: within one step, rails alternate between busy and idle.
  const double window_s = std::max(min_window_s, 2 * step_s(page.joint));
  const rail_tracks tracks = make_tracks(shown, window_s);
  const std::string description = fmt::format(
      "{}. The throughput of {} is stacked, averaged over {:.1f} s; rails over the same two NICs "
      "are drawn as one. The bars below show their state.",
      escape(rails_summary(page.rails)),
      shown.front().crosses() ? "the rails between islands" : "the rails", window_s);
  const std::string of_table =
      "<p class='quiet under'>Bytes sent and received by the first of the two ranks. The share is "
      "that of all bytes the two ranks exchanged. The epoch counts the rail's connections.</p>";
  return section("Rails", description,
                 draw_rails(tracks) + of_table + rail_table(page.rails, tracks.track_of_rail));
}

std::string timeline_section(const report& page) {
  std::vector<timeline_row> rows;
  for (const rank_record& rank : page.ranks) {
    rows.push_back({rank.name + " \u00b7 " + rank.island, rank.rank_location, rank.intervals});
  }
  return section("Timeline",
                 fmt::format(
                     "{} steps from the middle of the run. Sends and receives show only while the "
                     "rank is blocked on them; transfers that overlap computation are not shown.",
                     page.kept_steps),
                 draw_timeline(rows)) +
         section("Time per activity",
                 "Shares of each rank's time over the run. All-reduce includes waiting for the "
                 "last rank to enter the call.",
                 rank_table(page.ranks));
}

}  // namespace

double history::tokens_per_s() const {
  if (step_s.empty()) return 0;
  const std::size_t from = step_s.size() > 1 ? 1 : 0;
  const double seconds =
      std::accumulate(step_s.begin() + static_cast<std::ptrdiff_t>(from), step_s.end(), 0.0);
  const double count =
      std::accumulate(tokens.begin() + static_cast<std::ptrdiff_t>(from), tokens.end(), 0.0);
  return seconds > 0 ? count / seconds : 0;
}

std::string loss_comparison(const history& joint, const history& reference) {
  const double loss = joint.loss.back();
  if (reference.loss.empty()) return fmt::format("final loss {:.6f}; no reference was run", loss);
  const double reference_loss = reference.loss.back();
  std::string text =
      fmt::format("final loss {:.6f}; in one process {:.6f}; ", loss, reference_loss);
  if (joint.loss == reference.loss)
    return text + "difference 0 absolute, 0 relative: the same bits at every step";
  return text + fmt::format("difference {:.1e} absolute, {:.1e} relative",
                            std::abs(loss - reference_loss),
                            std::abs((loss - reference_loss) / reference_loss));
}

std::string render(const report& page) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\n"
      "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
      "<meta name='color-scheme' content='light "
      "dark'>\n<title>{}</title>\n<style>{}</style></head>\n"
      "<body><main>\n<h1>{}</h1>\n<p class='result'>{}</p>\n<p class='note'>{}</p>\n",
      escape(page.title), style_sheet, escape(page.title),
      escape(loss_comparison(page.joint, page.reference)), escape(page.note));
  html += loss_section(page) + difference_section(page) + speed_section(page) +
          rails_section(page) + timeline_section(page);
  html += section("Configuration", "Model, data, layout and transport of this run.",
                  summary_table(page));
  return html + "</main></body></html>\n";
}

}  // namespace tandem::train
