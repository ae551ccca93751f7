// What channels and communicators count, over every kind of fabric.
#include <gtest/gtest.h>

#include <sstream>
#include <tandem/collectives.hpp>
#include <tandem/metrics.hpp>

#include "job.hpp"

namespace tandem::test {
namespace {

class Metrics : public testing::TestWithParam<fabric_kind> {
 protected:
  Metrics() : before_(set_metrics_sink(exporter_)) {}
  ~Metrics() override { set_metrics_sink(before_); }

  /// The sum over the series of a name whose labels contain all `words`; -1: none.
  double sum(const std::string& name, const std::vector<std::string>& words = {}) const {
    std::istringstream text(exporter_->text());
    double total = -1;
    for (std::string line; std::getline(text, line);) {
      if (line.rfind(name + "{", 0) != 0) continue;
      bool has_all = true;
      for (const std::string& word : words) has_all &= line.find(word) != std::string::npos;
      if (has_all) total = std::max(total, 0.0) + std::stod(line.substr(line.rfind(' ')));
    }
    return total;
  }

  const std::shared_ptr<prometheus_exporter> exporter_ = std::make_shared<prometheus_exporter>();

 private:
  std::shared_ptr<metrics_sink> before_;
};

TEST_P(Metrics, MessagesAreCountedAtBothEnds) {
  job ranks(GetParam(), 3, small_pieces());
  std::vector<std::byte> data(3000);
  const auto body = [&](int r) -> asio::awaitable<void> {
    communicator& world = ranks.world(r);
    for (const std::size_t bytes : {0u, 8u, 3000u}) {
      const mutable_view part = mutable_view(data).part(0, bytes);
      if (r == 0) co_await world.send(2, part, 1);
      if (r == 2) co_await world.recv(0, part, 1);
    }
  };
  const std::string to_2 = R"(rank="0",peer="2")", from_0 = R"(rank="2",peer="0")";
  const double sent_before = sum("tandem_bytes_total", {to_2, "\"sent\""});
  EXPECT_EQ(ranks.run(body), "");
  EXPECT_EQ(sum("tandem_bytes_total", {to_2, "\"sent\""}) - std::max(sent_before, 0.0), 3008);
  EXPECT_EQ(sum("tandem_bytes_total", {to_2, "\"sent\""}),
            sum("tandem_bytes_total", {from_0, "\"received\""}));
  EXPECT_EQ(sum("tandem_messages_total", {to_2, "\"sent\""}),
            sum("tandem_messages_total", {from_0, "\"received\""}));
  const bool has_rails = GetParam().name.find("rails") != std::string::npos;
  EXPECT_EQ(sum("tandem_rail_bytes_total", {from_0, "\"received\""}) > 3008, has_rails);
}

TEST_P(Metrics, CallsAreTimed) {
  job ranks(GetParam(), 3, small_pieces());
  std::vector<std::vector<float>> data(3, std::vector<float>(500));
  const auto body = [&](int r) -> asio::awaitable<void> {
    for (int i = 0; i < 4; ++i) {
      co_await all_reduce(ranks.world(r), data[static_cast<std::size_t>(r)], data_type::float32,
                          reduce_op::sum);
    }
    co_await barrier(ranks.world(r));
  };
  EXPECT_EQ(ranks.run(body), "");
  for (const char* const rank : {"rank=\"0\"", "rank=\"1\"", "rank=\"2\""}) {
    EXPECT_EQ(sum("tandem_call_seconds_count", {rank, "call=\"all_reduce\""}), 4) << rank;
    EXPECT_EQ(sum("tandem_call_bytes_total", {rank, "call=\"all_reduce\""}), 4 * 2000) << rank;
    EXPECT_GT(sum("tandem_call_seconds_sum", {rank, "call=\"all_reduce\""}), 0) << rank;
    EXPECT_EQ(sum("tandem_call_seconds_count", {rank, "call=\"barrier\""}), 1) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Metrics, testing::ValuesIn(fabric_kinds()), name_of_kind);

}  // namespace
}  // namespace tandem::test
