// Two fabrics that share a rank's one store.

#include <array>
#include <boost/asio/this_coro.hpp>
#include <map>

#include "mixed/fabric.hpp"
#include "support/channel_case.hpp"

namespace tandem::test {
namespace {

/// Records its calls; its failure handler is called by the test.
class recording_store final : public store {
 public:
  const launch_info& who() const noexcept override { return who_; }
  std::string local_address() const override { return "127.0.0.1"; }
  secret data_key() const override { return secret(std::string_view("a key of the data")); }
  awaitable<void> set(std::string key, std::string value) override {
    values[std::move(key)] = std::move(value);
    co_return;
  }
  awaitable<std::vector<std::string>> get(std::vector<std::string> keys,
                                          std::chrono::milliseconds) override {
    std::vector<std::string> found;
    for (const std::string& key : keys) found.push_back(values[key]);
    co_return found;
  }
  awaitable<std::int64_t> add(std::string, std::int64_t amount) override { co_return amount; }
  void on_lost(lost_handler handler) override { on_loss = std::move(handler); }
  void report(const error& reason) noexcept override { reports.push_back(reason.what()); }
  void leave() noexcept override { ++left; }

  std::map<std::string, std::string> values;
  lost_handler on_loss;
  std::vector<std::string> reports;
  int left = 0;

 private:
  launch_info who_;
};

struct two_parts {
  explicit two_parts(const asio::any_io_executor& executor)
      : parts(mixed::split_store(underlying, executor, 2)) {}

  /// Counts the reports to a part.
  void listen(std::size_t part) {
    parts[part]->on_lost([this, part](const error& reason) {
      ++losses[part];
      last = reason.what();
    });
  }

  std::shared_ptr<recording_store> underlying = std::make_shared<recording_store>();
  std::vector<std::shared_ptr<store>> parts;
  std::array<int, 2> losses{};
  std::string last;
};

error loss() {
  return error(errc::peer_lost, "rank 3 is gone");
}

awaitable<void> report_to_both() {
  two_parts of(co_await asio::this_coro::executor);
  of.listen(0);
  of.listen(1);
  of.underlying->on_loss(loss());
  of.underlying->on_loss(loss());
  EXPECT_EQ(of.losses, (std::array{1, 1}));
  EXPECT_NE(of.last.find("rank 3 is gone"), std::string::npos) << of.last;
}

TEST(shared_store, a_loss_is_reported_to_each_part_once) {
  run_test(report_to_both());
}

awaitable<void> report_early() {
  two_parts of(co_await asio::this_coro::executor);
  of.listen(0);
  of.underlying->on_loss(loss());
  of.listen(1);
  EXPECT_EQ(of.losses, (std::array{1, 0})) << "while the handler is being set";
  co_await turns(2);
  EXPECT_EQ(of.losses, (std::array{1, 1}));
}

TEST(shared_store, a_loss_before_the_handler_is_reported_to_it) {
  run_test(report_early());
}

awaitable<void> leave_one_by_one() {
  two_parts of(co_await asio::this_coro::executor);
  of.listen(0);
  of.listen(1);
  of.parts[0]->leave();
  of.parts[0]->leave();
  EXPECT_EQ(of.underlying->left, 0);
  of.underlying->on_loss(loss());
  EXPECT_EQ(of.losses, (std::array{0, 1})) << "no report after leave";
  of.parts[1]->leave();
  EXPECT_EQ(of.underlying->left, 1);
}

TEST(shared_store, the_rank_leaves_when_all_parts_have_left) {
  run_test(leave_one_by_one());
}

awaitable<void> report_from_one() {
  two_parts of(co_await asio::this_coro::executor);
  of.listen(0);
  of.listen(1);
  of.parts[0]->report(loss());
  EXPECT_EQ(of.underlying->reports.size(), 1u);
  EXPECT_EQ(of.losses, (std::array{0, 1})) << "the other part gets it at once";
  of.underlying->on_loss(loss());
  EXPECT_EQ(of.losses, (std::array{1, 1})) << "and the reporting part when the store reports it";
}

TEST(shared_store, a_report_of_one_part_reaches_the_other) {
  run_test(report_from_one());
}

awaitable<void> destroy_in_the_handler() {
  two_parts of(co_await asio::this_coro::executor);
  of.parts[0]->on_lost([&of](const error&) {
    of.parts.clear();
    of.underlying.reset();
  });
  of.listen(1);
  const store::lost_handler on_loss = of.underlying->on_loss;
  on_loss(loss());
  EXPECT_EQ(of.losses, (std::array{0, 0}));
  on_loss(loss());
}

TEST(shared_store, a_handler_may_destroy_it) {
  run_test(destroy_in_the_handler());
}

awaitable<void> ask_through_a_part() {
  two_parts of(co_await asio::this_coro::executor);
  co_await of.parts[0]->set("k", "v");
  std::vector<std::string> keys(1, "k");
  const std::vector<std::string> found = co_await of.parts[1]->get(std::move(keys), 1s);
  EXPECT_EQ(found.at(0), "v");
  const std::int64_t sum = co_await of.parts[1]->add("n", 3);
  EXPECT_EQ(sum, 3);
  EXPECT_EQ(of.parts[0]->local_address(), "127.0.0.1");
  EXPECT_FALSE(of.parts[0]->data_key().empty());
  EXPECT_EQ(&of.parts[0]->who(), &of.underlying->who());
}

TEST(shared_store, requests_go_to_the_underlying_store) {
  run_test(ask_through_a_part());
}

}  // namespace
}  // namespace tandem::test
