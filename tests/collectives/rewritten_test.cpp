// Which calls mark messages whose buffer is written again (`operation::rewritten`).
#include <gtest/gtest.h>

#include <map>
#include <tandem/collectives.hpp>

#include "collectives/hosts.hpp"
#include "collectives/job.hpp"

namespace tandem {
namespace {

/// Sent messages, by whether they were marked.
struct sent {
  int marked = 0, others = 0;
};

/// A channel that counts both.
class counted_channel final : public channel {
 public:
  counted_channel(channel& below, sent& so_far) : below_(below), sent_(so_far) {}
  asio::any_io_executor get_executor() const noexcept override { return below_.get_executor(); }
  const channel_limits& limits() const noexcept override { return below_.limits(); }
  channel_stats stats() const noexcept override { return below_.stats(); }
  void fail(const error& reason) noexcept override { below_.fail(reason); }
  bool start(operation& op) override {
    if (op.what == operation::kind::send) ++(op.rewritten ? sent_.marked : sent_.others);
    return below_.start(op);
  }
  void cancel(operation& op) noexcept override { below_.cancel(op); }

 private:
  channel& below_;
  sent& sent_;
};

class counted_fabric final : public fabric {
 public:
  explicit counted_fabric(std::unique_ptr<fabric> below) : below_(std::move(below)) {}
  int rank() const noexcept override { return below_->rank(); }
  int size() const noexcept override { return below_->size(); }
  asio::any_io_executor get_executor() const noexcept override { return below_->get_executor(); }
  std::string_view kind() const noexcept override { return below_->kind(); }
  asio::awaitable<std::reference_wrapper<channel>> to(int peer) override {
    channel& there = co_await below_->to(peer);
    const auto one = channels_.try_emplace(peer, there, messages).first;
    co_return one->second;
  }
  channel* find(int peer) noexcept override {
    const auto one = channels_.find(peer);
    return one == channels_.end() ? nullptr : &one->second;
  }
  void fail(const error& reason) noexcept override { below_->fail(reason); }
  void close() noexcept override { below_->close(); }

  sent messages;

 private:
  const std::unique_ptr<fabric> below_;
  std::map<int, counted_channel> channels_;
};

asio::awaitable<test::fabrics> make_counted(int size, settings options) {
  test::fabrics made = co_await test::make_local(size, options);
  for (auto& each : made) each = std::make_unique<counted_fabric>(std::move(each));
  co_return made;
}

using call = std::function<asio::awaitable<void>(communicator&, mutable_view data)>;

/// Messages of all ranks in one call.
sent messages_of(const test::host_names& hosts, std::size_t bytes, const call& what) {
  const auto ranks = static_cast<int>(hosts.size());
  const settings options;
  test::job all({"counted", make_counted}, ranks, options);
  facts known;
  known.host_of_rank = hosts;
  std::vector<std::vector<float>> data;
  for (const auto& world : all.worlds) {
    world->internals()->adopt(plan::of(known, options));
    data.emplace_back(bytes / sizeof(float), 1.0F);
  }
  EXPECT_EQ(all.run([&](int r) {
    return what(all.world(r), mutable_view(data[static_cast<std::size_t>(r)]));
  }),
            "");
  sent sum;
  for (const auto& each : all.fabrics) {
    const sent& one = dynamic_cast<const counted_fabric&>(*each).messages;
    sum.marked += one.marked;
    sum.others += one.others;
  }
  return sum;
}

call all_reduce_by(algorithm how) {
  return [how](communicator& among, mutable_view data) {
    return all_reduce(among, data, data_type::float32, reduce_op::sum, how);
  };
}

constexpr std::size_t mib = 1024 * 1024;

TEST(Rewritten, MarksAllReduceThatFitsCaches) {
  for (const algorithm how : algorithms_of(collective::all_reduce)) {
    if (how == algorithm::board) continue;
    SCOPED_TRACE(name(how));
    const sent messages = messages_of({"a", "a", "b", "b"}, mib / 8, all_reduce_by(how));
    EXPECT_GT(messages.marked, 0);
    EXPECT_EQ(messages.others, 0);
  }
}

/// 2 MiB divided by the ranks and once more by the ranks.
TEST(Rewritten, DoesNotMarkLongerCalls) {
  EXPECT_GT(messages_of({"a", "a"}, mib / 2, all_reduce_by(algorithm::ring)).marked, 0);
  const sent longer = messages_of({"a", "a"}, mib / 2 + 64, all_reduce_by(algorithm::ring));
  EXPECT_EQ(longer.marked, 0);
  EXPECT_GT(longer.others, 0);
}

TEST(Rewritten, DoesNotMarkCallsThatKeepInput) {
  const sent messages = messages_of({"a", "a", "a"}, mib / 8, [](communicator& among, auto data) {
    return broadcast(among, data, 0);
  });
  EXPECT_EQ(messages.marked, 0);
  EXPECT_GT(messages.others, 0);
}

}  // namespace
}  // namespace tandem
