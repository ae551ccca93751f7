// The progress line and the report's page, checked as text.
#include "report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tandem/error.hpp>

#include "json.hpp"
#include "progress.hpp"
#include "support/text.hpp"

namespace tandem::train {
namespace {

using test::count;
namespace fs = std::filesystem;

report small_report() {
  report page;
  page.title = "llama <tiny> & \"friends\"";
  page.note = "both islands are processors";
  page.joint = {{5.5, 4.5, 3.5}, {0.2, 0.1, 0.1}, {0.1, 0.1, 0.1}, {1000, 1000, 1000}};
  page.reference = {{5.5, 4.5, 3.5}, {0.3, 0.2, 0.2}, {0, 0, 0}, {1000, 1000, 1000}};
  page.ranks.push_back({"rank 0",
                        "nvidia",
                        "stage 0",
                        "0-1",
                        "host",
                        10,
                        1.0,
                        {0.5, 0.2, 0, 0, 0, 0},
                        {{activity::forward, 0, 0, 500}, {activity::recv, 1, 500, 900}}});
  page.kept_steps = 1;
  return page;
}

TEST(progress_bar, shows_requested_fields) {
  const progress_state state{"4 ranks", 50, 200, 3.14159, 12345, 0.257, 31.2};
  EXPECT_EQ(progress_line(state, 0),
            "4 ranks  step 50/200  loss 3.1416  12.3k tokens/s  waiting 26 %  31 s left");
  const std::string wide = progress_line(state, 120);
  EXPECT_LE(wide.size(), 120U);
  EXPECT_NE(wide.find("[=======>                      ]"), std::string::npos) << wide;
}

TEST(progress_bar, never_exceeds_the_terminal) {
  const progress_state state{"one process", 199, 200, 2.5, 999, -1, 0.4};
  for (int columns = 1; columns < 150; ++columns) {
    EXPECT_LE(progress_line(state, columns).size(), static_cast<std::size_t>(columns));
  }
  EXPECT_EQ(progress_line(state, 100).find("waiting"), std::string::npos);
}

TEST(progress_bar, writes_plain_lines_where_there_is_no_terminal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    progress shown(file, "run", 100);
    for (int i = 0; i < 100; ++i) shown.step(1.0, 10, 0.5);
  }
  std::rewind(file);
  std::string text(100'000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_EQ(count(text, "\n"), 21);
  EXPECT_EQ(count(text, "\r"), 0);
  EXPECT_EQ(count(text, "step 100/100"), 1);
}

TEST(ticks, are_round_numbers_covering_the_range) {
  EXPECT_EQ(nice_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  const std::vector<double> ticks = nice_ticks(2.31, 5.62, 5);
  EXPECT_LE(ticks.front(), 2.31);
  EXPECT_GE(ticks.back(), 5.62);
  EXPECT_FALSE(nice_ticks(3, 3, 5).empty());
  EXPECT_FALSE(nice_ticks(0, 0, 5).empty());
  EXPECT_EQ(tick_text(25000), "25k");
  EXPECT_EQ(tick_text(0), "0");
}

TEST(charts, leave_gaps_for_missing_values) {
  const std::string svg = draw({"t", "y", false, {{"c", "joint", {1, NAN, 2, 3, INFINITY, 4}}}});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  const std::size_t from = svg.find("class='curve joint' d='") + 23;
  const std::string d = svg.substr(from, svg.find('\'', from) - from);
  EXPECT_EQ(count(d, "M"), 3);
  EXPECT_EQ(count(d, "L"), 1);
  EXPECT_NE(draw({"t", "y", false, {{"c", "joint", {}}}}).find("nothing was measured"),
            std::string::npos);
  EXPECT_NE(draw_timeline({}).find("no step was recorded"), std::string::npos);
}

TEST(report_page, is_self_contained_and_escapes_input) {
  const std::string html = render(small_report());
  EXPECT_EQ(html.find("http"), std::string::npos);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("src="), std::string::npos);
  EXPECT_EQ(html.find("<tiny>"), std::string::npos);
  EXPECT_NE(html.find("llama &lt;tiny&gt; &amp; &quot;friends&quot;"), std::string::npos);
  EXPECT_EQ(count(html, "<svg"), count(html, "</svg>"));
  EXPECT_EQ(count(html, "<section>"), count(html, "</section>"));
  EXPECT_EQ(count(html, "<rect class='a3' x="), 1) << "one receive wait was recorded";
  EXPECT_NE(html.find("same bits"), std::string::npos);
}

TEST(report_page, shows_a_difference_only_where_there_is_one) {
  report page = small_report();
  EXPECT_EQ(render(page).find("relative difference by step"), std::string::npos);
  page.joint.loss.back() = 3.6;
  EXPECT_NE(render(page).find("relative difference by step"), std::string::npos);
  page.reference = {};
  EXPECT_EQ(render(page).find("Difference"), std::string::npos);
}

TEST(result_line, shows_loss_and_difference) {
  const report page = small_report();
  EXPECT_EQ(loss_comparison(page.joint, page.reference),
            "final loss 3.500000; in one process 3.500000; difference 0 absolute, 0 relative: the "
            "same bits at every step");
  history other = page.reference;
  other.loss.back() = 3.5 - 7e-6;
  EXPECT_EQ(loss_comparison(page.joint, other),
            "final loss 3.500000; in one process 3.499993; difference 7.0e-06 absolute, 2.0e-06 "
            "relative");
  EXPECT_EQ(loss_comparison(page.joint, {}), "final loss 3.500000; no reference was run");
}

TEST(history_rates, exclude_the_first_step) {
  EXPECT_DOUBLE_EQ(small_report().joint.tokens_per_s(), 10000);
  EXPECT_EQ(history{}.tokens_per_s(), 0);
}

TEST(timelines, sum_all_steps_and_keep_requested_ones) {
  timeline line;
  line.start();
  const timeline::clock::time_point at = timeline::clock::now();
  line.add(activity::forward, 0, at, at + std::chrono::milliseconds(5));
  line.keep(true);
  line.add(activity::recv, 1, at, at + std::chrono::milliseconds(3));
  EXPECT_NEAR(line.seconds()[0], 0.005, 1e-9);
  EXPECT_NEAR(line.waited_s(), 0.003, 1e-9);
  ASSERT_EQ(line.intervals().size(), 1U);
  EXPECT_NEAR(line.intervals()[0].end_us - line.intervals()[0].begin_us, 3000, 1e-6);
}

TEST(json, keeps_full_precision_and_escapes_text) {
  json_object all;
  EXPECT_EQ(json_object().take(), "{}\n");
  all.text("na\"me", "a\\b\n");
  all.number("n", NAN);
  all.numbers("list", {0.1, INFINITY});
  all.bits("bits", {0.1, 1.5});
  EXPECT_EQ(all.take(),
            "{\n\"na\\\"me\": \"a\\\\b\\u000a\",\n\"n\": null,\n\"list\": [0.1,null],\n"
            "\"bits\": [\"0x1.999999999999ap-4\",\"0x1.8p+0\"]\n}\n");
}

TEST(timelines, measures_the_bubble_of_pipelines) {
  // Two pipelines of two ranks; each run lasts from its first begin to its last end.
  const std::vector<pipeline_run> first{{0, 90, 80}, {200, 300, 90}};
  const std::vector<pipeline_run> second{{10, 100, 70}, {200, 290, 60}};
  EXPECT_DOUBLE_EQ(measured_bubble({first, second}, 2), 1 - 300.0 / 400);
  EXPECT_DOUBLE_EQ(measured_bubble({first, second, first, second}, 2), 1 - 300.0 / 400);
  EXPECT_DOUBLE_EQ(measured_bubble({first}, 1), 1 - 170.0 / 190);
  EXPECT_EQ(measured_bubble({{}, {}}, 2), 0);
  EXPECT_EQ(measured_bubble({}, 2), 0);
}

TEST(timelines, keeps_pipeline_runs_after_the_warm_up) {
  using namespace std::chrono_literals;
  timeline line;
  const timeline::clock::time_point at = timeline::clock::now();
  line.add(activity::forward, 0, at, at + 5ms);
  line.add_pipeline(at, at + 10ms);
  EXPECT_TRUE(line.pipeline_runs().empty());
  line.add(activity::backward, 0, at + 10ms, at + 12ms);
  line.add(activity::recv, 0, at + 12ms, at + 15ms);
  line.add(activity::backward_weights, 0, at + 15ms, at + 16ms);
  line.add_pipeline(at + 10ms, at + 20ms);
  ASSERT_EQ(line.pipeline_runs().size(), 1u);
  EXPECT_NEAR(line.pipeline_runs()[0].busy_us, 3000, 1e-6);
  EXPECT_NEAR(line.pipeline_runs()[0].end_us - line.pipeline_runs()[0].begin_us, 10000, 1e-6);
}

}  // namespace
}  // namespace tandem::train
