// The end of a training run: rank 0 gathers the records of all ranks for the report.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <tandem/collectives/collectives.hpp>

#include "carriers.hpp"
#include "trainer.hpp"

namespace tandem::train {
namespace {

constexpr std::uint16_t moments_tag = 2;
constexpr std::uint16_t rails_tag = 3;

/// Sent as raw bytes: the rendezvous checks that all ranks run the same build.
struct summary {
  double elapsed_s = 0;
  std::uint64_t parameters = 0;
  std::uint64_t moments = 0;
  std::uint64_t rails = 0;
  std::array<double, activity_count> seconds{};
  std::array<char, 64> host{};
  std::array<char, 32> inside{}, between{};
};

std::string layers_text(const job& what, const place& at) {
  const int last = at.first_layer + at.layers - 1;
  std::string text = at.first_layer == 0 ? "embedding, " : "";
  text += at.layers == 1 ? fmt::format("{}", last) : fmt::format("{}-{}", at.first_layer, last);
  return last + 1 == what.model.layers ? text + ", head" : text;
}

rank_record record_of(const job& what, int rank, const summary& from) {
  const place at = what.who.at(rank);
  rank_record result;
  result.name = fmt::format("rank {}", rank);
  result.island = what.who.islands()[static_cast<std::size_t>(at.island)].name;
  result.place = fmt::format("stage {}, replica {}", at.stage, at.replica);
  result.layers = layers_text(what, at);
  result.host = from.host.data();
  result.carried_inside = from.inside.data();
  result.carried_between = from.between.data();
  result.parameters = from.parameters;
  result.elapsed_s = from.elapsed_s;
  result.seconds = from.seconds;
  result.moments.resize(from.moments);
  result.rails.resize(from.rails);
  return result;
}

asio::awaitable<void> send_rails(communicator& over, const std::vector<rail_history>& rails) {
  for (const rail_history& one : rails) {
    const const_view end(&one.end, sizeof one.end);
    co_await over.send(0, end, rails_tag);
    if (one.points.empty()) continue;
    const const_view points(one.points);
    co_await over.send(0, points, rails_tag);
  }
}

asio::awaitable<void> receive_rails(communicator& over, int from, std::vector<rail_history>& into) {
  for (rail_history& one : into) {
    const mutable_view end(&one.end, sizeof one.end);
    co_await over.recv(from, end, rails_tag);
    one.points.resize(one.end.points);
    if (one.points.empty()) continue;
    const mutable_view points(one.points);
    co_await over.recv(from, points, rails_tag);
  }
}

}  // namespace

asio::awaitable<std::vector<rank_record>> trainer::collect() {
  rails_.stop();
  // No rank closes a rail that a peer still samples: the close would be recorded as a loss.
  co_await barrier(everyone_);
  const std::vector<rail_history> rails = rails_.rails();
  summary mine;
  mine.rails = rails.size();
  mine.elapsed_s = timeline_.elapsed_s();
  for (const parameter<float>& one : model_.parameters()) mine.parameters += one.value.size();
  mine.moments = timeline_.moments().size();
  mine.seconds = timeline_.seconds();
  gethostname(mine.host.data(), mine.host.size() - 1);
  const carriers by = carriers_of(job_.who, over_);
  by.inside.copy(mine.inside.data(), mine.inside.size() - 1);
  by.between.copy(mine.between.data(), mine.between.size() - 1);

  std::vector<summary> all(static_cast<std::size_t>(rank_ == 0 ? everyone_.size() : 0));
  const const_view block(&mine, sizeof mine);
  const mutable_view blocks(all);
  co_await gather(everyone_, block, blocks, 0);
  std::vector<rank_record> records;
  if (rank_ != 0) {
    const const_view moments(timeline_.moments());
    co_await everyone_.send(0, moments, moments_tag);
    co_await send_rails(everyone_, rails);
    co_return records;
  }
  for (int rank = 0; rank < everyone_.size(); ++rank) {
    records.push_back(record_of(job_, rank, all[static_cast<std::size_t>(rank)]));
    if (rank == 0) {
      records.back().moments = timeline_.moments();
      records.back().rails = rails;
      continue;
    }
    const mutable_view moments(records.back().moments);
    co_await everyone_.recv(rank, moments, moments_tag);
    co_await receive_rails(everyone_, rank, records.back().rails);
  }
  co_return records;
}

}  // namespace tandem::train
