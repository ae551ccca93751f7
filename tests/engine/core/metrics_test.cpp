// The hook for metrics, and the exporter for Prometheus.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <tandem/detail/meter.hpp>
#include <tandem/metrics.hpp>
#include <thread>
#include <vector>

namespace tandem {
namespace {

/// Uses a sink while it exists.
class own_metrics {
 public:
  explicit own_metrics(std::shared_ptr<metrics_sink> sink)
      : before_(set_metrics_sink(std::move(sink))) {}
  ~own_metrics() { set_metrics_sink(before_); }
  own_metrics(const own_metrics&) = delete;
  own_metrics& operator=(const own_metrics&) = delete;

 private:
  std::shared_ptr<metrics_sink> before_;
};

bool has_line(const std::string& text, const std::string& line) {
  std::istringstream in(text);
  for (std::string each; std::getline(in, each);) {
    if (each == line) return true;
  }
  return false;
}

metric_description counter(std::vector<std::pair<std::string_view, std::string>> labels) {
  return {metric_description::kind::counter, "x_total", "Some help.", std::move(labels)};
}

TEST(metrics, counters_add_up_by_labels) {
  prometheus_exporter exporter;
  EXPECT_EQ(exporter.text(), "");
  const auto first = exporter.open(counter({{"rank", "0"}}));
  const auto second = exporter.open(counter({{"rank", "1"}}));
  first->add(2);
  first->add(1);
  EXPECT_EQ(exporter.open(counter({{"rank", "0"}})), first) << "the same series";
  EXPECT_EQ(exporter.text(),
            "# HELP x_total Some help.\n"
            "# TYPE x_total counter\n"
            "x_total{rank=\"0\"} 3\n"
            "x_total{rank=\"1\"} 0\n");
}

TEST(metrics, large_counts_are_exact) {
  prometheus_exporter exporter;
  const auto one = exporter.open(counter({}));
  one->add(9e15);
  one->add(1);
  EXPECT_TRUE(has_line(exporter.text(), "x_total 9000000000000001")) << exporter.text();
}

TEST(metrics, label_values_are_escaped) {
  prometheus_exporter exporter;
  exporter.open(counter({{"rail", "a\"b\\c\nd"}}));
  EXPECT_TRUE(has_line(exporter.text(), R"(x_total{rail="a\"b\\c\nd"} 0)")) << exporter.text();
}

TEST(metrics, histograms_have_cumulative_buckets) {
  prometheus_exporter exporter;
  const auto times = exporter.open(
      {metric_description::kind::histogram, "t_seconds", "Times.", {{"call", "barrier"}}});
  for (const double s : {0.5e-6, 1e-6, 3e-6, 0.2, 1000.0}) times->add(s);
  const std::string text = exporter.text();
  EXPECT_TRUE(has_line(text, "# TYPE t_seconds histogram")) << text;
  for (const char* const line : {R"(t_seconds_bucket{call="barrier",le="1e-06"} 2)",
                                 R"(t_seconds_bucket{call="barrier",le="2e-06"} 2)",
                                 R"(t_seconds_bucket{call="barrier",le="5e-06"} 3)",
                                 R"(t_seconds_bucket{call="barrier",le="0.1"} 3)",
                                 R"(t_seconds_bucket{call="barrier",le="0.2"} 4)",
                                 R"(t_seconds_bucket{call="barrier",le="100"} 4)",
                                 R"(t_seconds_bucket{call="barrier",le="+Inf"} 5)",
                                 R"(t_seconds_count{call="barrier"} 5)"}) {
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
  }
  EXPECT_NE(text.find("t_seconds_sum{call=\"barrier\"} 1000.2"), std::string::npos) << text;
}

TEST(metrics, bucket_bounds_ascend) {
  const std::vector<double>& bounds = prometheus_exporter::bucket_bounds();
  EXPECT_EQ(bounds.size(), 25u);
  for (std::size_t i = 1; i < bounds.size(); ++i) EXPECT_GT(bounds[i], bounds[i - 1]);
}

TEST(metrics, without_a_sink_nothing_is_counted) {
  const own_metrics none(nullptr);
  detail::channel_meter meter("tcp", 0, 1);
  meter.sent(5);
  detail::rail_meter rail("eth0", 0, 1);
  rail.reached(10, 10);
  rail.lost();
  EXPECT_FALSE(detail::call_metrics().is_on());
  detail::count_failure(0, make_error_code(errc::peer_lost));
}

TEST(metrics, channels_and_rails_are_counted) {
  const auto exporter = std::make_shared<prometheus_exporter>();
  const own_metrics own(exporter);
  const detail::channel_meter meter("tcp", 0, 1);
  meter.sent(5);
  meter.sent(0);
  meter.received(7);
  detail::rail_meter rail("eth0", 0, 1);
  rail.reached(10, 20);
  rail.reached(15, 20);
  rail.lost();
  detail::count_failure(3, make_error_code(errc::peer_lost));
  const std::string text = exporter->text();
  const std::string by_tcp = R"({rank="0",peer="1",transport="tcp",direction=)";
  const std::string by_rail = R"({rank="0",peer="1",rail="eth0")";
  for (const std::string& line :
       {"tandem_messages_total" + by_tcp + "\"sent\"} 2",
        "tandem_messages_total" + by_tcp + "\"received\"} 1",
        "tandem_bytes_total" + by_tcp + "\"sent\"} 5",
        "tandem_bytes_total" + by_tcp + "\"received\"} 7",
        "tandem_rail_bytes_total" + by_rail + ",direction=\"sent\"} 15",
        "tandem_rail_bytes_total" + by_rail + ",direction=\"received\"} 20",
        "tandem_rail_losses_total" + by_rail + "} 1"}) {
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
  }
  EXPECT_NE(text.find("tandem_failures_total{rank=\"3\",error=\""), std::string::npos) << text;
}

/// A sink that wants nothing.
class deaf_sink final : public metrics_sink {
 public:
  std::shared_ptr<metric> open(const metric_description&) noexcept override {
    ++asked;
    return nullptr;
  }
  int asked = 0;
};

TEST(metrics, a_sink_may_refuse_a_series) {
  const auto sink = std::make_shared<deaf_sink>();
  const own_metrics own(sink);
  const detail::channel_meter meter("tcp", 0, 1);
  meter.sent(5);
  EXPECT_EQ(sink->asked, 4);
}

TEST(metrics, can_be_read_while_others_count) {
  prometheus_exporter exporter;
  const auto one = exporter.open(counter({}));
  std::vector<std::thread> adding;
  for (int i = 0; i < 2; ++i) {
    adding.emplace_back([&] {
      for (int k = 0; k < 10'000; ++k) one->add(1);
    });
  }
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(exporter.text().empty());
  for (std::thread& each : adding) each.join();
  EXPECT_TRUE(has_line(exporter.text(), "x_total 20000")) << exporter.text();
}

}  // namespace
}  // namespace tandem
