// The rails in the progress line and on the page of `tandem train`, checked as text.
#include <gtest/gtest.h>

#include "apps/train_rails.hpp"
#include "page.hpp"
#include "progress.hpp"
#include "rail_log.hpp"
#include "support/text.hpp"

namespace tandem::train {
namespace {

using test::count;
/// Checks that elements are properly nested and attributes are quoted. Returns the first error;
/// empty if there is none.
std::string fault_of(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at)) {
    std::size_t end = at + 1;
    for (char quote = 0; end < html.size() && (quote != 0 || html[end] != '>'); ++end) {
      if (quote == 0 && (html[end] == '\'' || html[end] == '"')) {
        quote = html[end];
      } else if (html[end] == quote) {
        quote = 0;
      } else if (html[end] == '<') {
        return "< inside " + html.substr(at, 60);
      }
    }
    if (end == html.size()) return "never ends: " + html.substr(at, 60);
    const std::string tag = html.substr(at + 1, end - at - 1);
    at = end;
    const std::string name = tag.substr(0, tag.find_first_of(" \n"));
    if (name == "!doctype" || name == "meta" || tag.back() == '/') continue;
    if (name.front() != '/') {
      open.push_back(name);
      continue;
    }
    if (open.empty() || "/" + open.back() != name) {
      return "<" + tag + "> closes " + (open.empty() ? "nothing" : open.back());
    }
    open.pop_back();
  }
  return open.empty() ? "" : open.back() + " is never closed";
}

report page_with(std::vector<rail_record> rails) {
  report page;
  page.title = "t";
  page.joint = {{5.5, 4.5}, {0.2, 0.2}, {0.1, 0.1}, {1000, 1000}};
  page.rails = std::move(rails);
  return page;
}

const std::vector<nic_status> mixed{{"eth0", 2, 2, rail_state::up, 1.23e9},
                                    {"eth1", 2, 1, rail_state::lost, 56.7e6},
                                    {"eth2", 2, 0, rail_state::lost, 8},
                                    {"eth3", 1, 0, rail_state::suspect, 1234}};

TEST(rail_text, abbreviates_as_rails_increase) {
  const std::vector<std::string> texts = rail_texts(mixed);
  ASSERT_EQ(texts.size(), 4U);
  EXPECT_EQ(texts[0], "eth0 up 1.2 GB/s  eth1 1/2 up 57 MB/s  eth2 lost  eth3 suspect 1 kB/s");
  EXPECT_EQ(texts[1], "eth0 1.2 GB/s  eth1 1/2 up 57 MB/s  eth2 lost  eth3 suspect 1 kB/s");
  EXPECT_EQ(texts[2], "1 of 4 NICs up 1.3 GB/s, eth1 1/2 up, eth2 lost, eth3 suspect");
  EXPECT_EQ(texts[3], "1/4 up 1.3 GB/s");
  EXPECT_TRUE(rail_texts({}).empty());
}

TEST(rail_text, has_at_most_three_digits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1.25e6), "1.2 MB");
  EXPECT_EQ(bytes_text(12.5e9), "12 GB");
  EXPECT_EQ(rate_text(1.25e12), "1.2 TB/s");
}

TEST(rails_in_the_progress_line, fit_the_terminal) {
  std::vector<nic_status> many;
  for (int i = 0; i < 16; ++i) many.push_back({"eth" + std::to_string(i), 1, 1, {}, 1e9});
  many[7] = {"eth7", 1, 0, rail_state::lost, 0};
  for (const std::vector<nic_status>& rails : {mixed, many}) {
    progress_state state{"4 ranks", 50, 200, 3.14159, 12345, 0.257, 31.2, rail_texts(rails)};
    for (int columns = 1; columns < 400; ++columns) {
      ASSERT_LE(progress_line(state, columns).size(), static_cast<std::size_t>(columns));
    }
    for (const std::string& all : {progress_line(state, 0), progress_line(state, 399)}) {
      EXPECT_NE(all.find(state.rails[0]), std::string::npos) << all;
      EXPECT_NE(all.find("waiting 26 %"), std::string::npos) << all;
    }
  }
}

TEST(rails_in_the_progress_line, replace_waiting_time_where_space_is_short) {
  const std::vector<nic_status> two{{"eth0", 1, 1, rail_state::up, 1.2e9},
                                    {"eth1", 1, 0, rail_state::lost, 0}};
  const progress_state state{"4 ranks", 50, 200, 3.14159, 12345, 0.257, 31.2, rail_texts(two)};
  EXPECT_EQ(progress_line(state, 79),
            "4 ranks  step 50/200  loss 3.1416  12.3k tokens/s  31 s left  1/2 up 1.2 GB/s");
  EXPECT_EQ(
      progress_line(state, 86),
      "4 ranks  step 50/200  loss 3.1416  12.3k tokens/s  31 s left  eth0 1.2 GB/s  eth1 lost");
  EXPECT_EQ(progress_line(state, 110),
            "4 ranks  step 50/200  loss 3.1416  12.3k tokens/s  waiting 26 %  31 s left  "
            "eth0 up 1.2 GB/s  eth1 lost");
  EXPECT_EQ(progress_line(state, 60).find("eth"), std::string::npos);
}

TEST(rails_in_the_progress_line, are_queried_only_when_shown) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  int asked = 0;
  const progress::rails_source rails = [&asked] {
    ++asked;
    return std::vector<std::string>{"r1 up", "1/1"};
  };
  {
    progress shown(file, "run", 100);
    for (int i = 0; i < 100; ++i) shown.step(1.0, 10, 0.5, rails);
  }
  std::rewind(file);
  std::string text(100'000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_EQ(asked, 21);
  EXPECT_EQ(count(text, "  r1 up\n"), 21) << text;
}

TEST(rails_on_the_page, are_complete_and_mark_the_lost_one) {
  const std::string html = render(page_with(records_with_a_loss()));
  EXPECT_EQ(fault_of(html), "");
  EXPECT_EQ(count(html, "<h2>Rails</h2>"), 1);
  EXPECT_NE(html.find("lost: r2 once"), std::string::npos);
  for (const char* rail : {"r1", "r2"}) {
    EXPECT_EQ(count(html, std::string("<td>nvidia ") + rail + "</td><td>amd " + rail), 1) << rail;
    EXPECT_GE(count(html, std::string("<title>") + rail + ": "), 2) << rail;
  }
  EXPECT_EQ(count(html, "<rect class='lost'"), 1);
  EXPECT_NE(html.find("<title>r2: lost, 3.0 to 5.1 s</title>"), std::string::npos)
      << html.substr(html.find("<rect class='lost'"), 200);
  EXPECT_NE(html.find("<text class='mark'"), std::string::npos);
  EXPECT_NE(html.find("<td class='words'>the peer closed it</td>"), std::string::npos);
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_EQ(html.find("inf"), std::string::npos);
}

TEST(rails_on_the_page, are_half_grey_for_partially_lost_nic) {
  std::vector<rail_record> rails = records_with_a_loss();
  rails.push_back(rails[1]);
  rails.back().second = 3;
  for (rail_point& p : rails.back().points) p.worst = rail_state::up;
  const std::string html = render(page_with(rails));
  EXPECT_EQ(fault_of(html), "");
  EXPECT_EQ(count(html, "<title>r2: 1 of 2 rails lost, 3.0 to 5.1 s</title>"), 2);
  EXPECT_EQ(count(html, "<text class='mark'"), 0) << "not all of it is lost";
}

TEST(rails_on_the_page, are_escaped_and_shortened) {
  std::vector<rail_record> rails = records_with_a_loss();
  rails[0].first_nic = "<b>&'\"";
  rails[0].why_lost = "<script>";
  rails[1].first_nic = "enp193s0f0np0";
  rails[1].second_nic = "enp193s0f1np1";
  const std::string html = render(page_with(rails));
  EXPECT_EQ(fault_of(html), "");
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_NE(html.find("<title>enp193s0f0np0 - enp193s0f1np1: "), std::string::npos);
  EXPECT_NE(html.find(">enp193s0f0np0 - enp193s…<"), std::string::npos);
}

TEST(rails_on_the_page, handle_no_rails_and_zero_duration) {
  EXPECT_EQ(render(page_with({})).find("Rails"), std::string::npos);
  std::vector<rail_record> rails = records_with_a_loss();
  for (rail_record& one : rails) one.points.clear();
  const std::string html = render(page_with(rails));
  EXPECT_EQ(fault_of(html), "");
  EXPECT_NE(html.find("nothing was measured"), std::string::npos);
  for (rail_record& one : rails) one.points = {{0, 0, 0, {}}, {0.02, 5, 5, {}}};
  EXPECT_EQ(fault_of(render(page_with(rails))), "");
}

TEST(rails_on_the_page, reuse_colours_for_many_rails) {
  std::vector<rail_record> rails;
  for (int i = 0; i < 20; ++i) {
    rails.push_back(records_with_a_loss()[0]);
    rails.back().first_nic = rails.back().second_nic = "eth" + std::to_string(i);
    rails.back().lane = i;
  }
  const std::string html = render(page_with(rails));
  EXPECT_EQ(fault_of(html), "");
  for (int i = 0; i < 20; ++i) {
    EXPECT_NE(html.find(">eth" + std::to_string(i) + "</text>"), std::string::npos) << i;
  }
  EXPECT_EQ(count(html, "class='f8'"), 0);
}

TEST(well_formedness, checker_detects_errors) {
  EXPECT_EQ(fault_of("<!doctype html>\n<p><meta x='a>b'><br/></p>"), "");
  EXPECT_NE(fault_of("<p><b></p>"), "");
  EXPECT_NE(fault_of("<p>"), "");
  EXPECT_NE(fault_of("</p>"), "");
  EXPECT_NE(fault_of("<p x='>"), "");
}

}  // namespace
}  // namespace tandem::train
