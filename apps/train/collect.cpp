// The end of a training run: rank 0 gathers the records of all ranks for the report.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <tandem/collectives.hpp>

#include "page.hpp"
#include "trainer.hpp"

namespace tandem::train {
namespace {

constexpr std::uint16_t intervals_tag = 2;
constexpr std::uint16_t rails_tag = 3;
constexpr std::uint16_t pipeline_tag = 4;

/// Sent as raw bytes: the rendezvous checks that all ranks run the same build.
struct summary {
  double elapsed_s = 0;
  std::uint64_t parameters = 0;
  std::uint64_t intervals = 0;
  std::uint64_t rails = 0;
  std::uint64_t pipeline_runs = 0;
  std::array<double, activity_count> seconds{};
  std::array<char, 64> host{};
  std::array<char, 32> inside{}, between{};
};

std::string layers_text(const job& what, int rank) {
  std::string text;
  for (int chunk = 0; chunk < what.who.chunks(); ++chunk) {
    const layer_range layers = what.who.layers_of(rank, chunk);
    const int last = layers.first + layers.count - 1;
    if (chunk > 0) text += "; ";
    if (layers.first == 0) text += "embedding, ";
    text += layers.count == 1 ? fmt::format("{}", last) : fmt::format("{}-{}", layers.first, last);
    if (last + 1 == what.model.layers) text += ", head";
  }
  return text;
}

rank_record record_of(const job& what, int rank, const summary& from) {
  const rank_location at = what.who.at(rank);
  rank_record result;
  result.name = fmt::format("rank {}", rank);
  result.island = what.who.islands()[static_cast<std::size_t>(at.island)].name;
  result.rank_location = fmt::format("stage {}, replica {}", at.stage, at.replica);
  result.layers = layers_text(what, rank);
  result.host = from.host.data();
  result.transports_inside = from.inside.data();
  result.transports_between = from.between.data();
  result.parameters = from.parameters;
  result.elapsed_s = from.elapsed_s;
  result.seconds = from.seconds;
  result.intervals.resize(from.intervals);
  result.rails.resize(from.rails);
  result.pipeline_runs.resize(from.pipeline_runs);
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
  co_await barrier(world_);
  const std::vector<rail_history> rails = rails_.rails();
  summary own;
  own.rails = rails.size();
  own.elapsed_s = timeline_.elapsed_s();
  own.parameters = model_.parameters();
  own.pipeline_runs = timeline_.pipeline_runs().size();
  own.intervals = timeline_.intervals().size();
  own.seconds = timeline_.seconds();
  gethostname(own.host.data(), own.host.size() - 1);
  const transports by = transports_of(job_.who, over_);
  by.inside.copy(own.inside.data(), own.inside.size() - 1);
  by.between.copy(own.between.data(), own.between.size() - 1);

  std::vector<summary> all(static_cast<std::size_t>(rank_ == 0 ? world_.size() : 0));
  const const_view block(&own, sizeof own);
  const mutable_view blocks(all);
  co_await gather(world_, block, blocks, 0);
  std::vector<rank_record> records;
  if (rank_ != 0) {
    const const_view intervals(timeline_.intervals());
    co_await world_.send(0, intervals, intervals_tag);
    const const_view runs(timeline_.pipeline_runs());
    co_await world_.send(0, runs, pipeline_tag);
    co_await send_rails(world_, rails);
    co_return records;
  }
  for (int rank = 0; rank < world_.size(); ++rank) {
    records.push_back(record_of(job_, rank, all[static_cast<std::size_t>(rank)]));
    if (rank == 0) {
      records.back().intervals = timeline_.intervals();
      records.back().rails = rails;
      records.back().pipeline_runs = timeline_.pipeline_runs();
      continue;
    }
    const mutable_view intervals(records.back().intervals);
    co_await world_.recv(rank, intervals, intervals_tag);
    const mutable_view runs(records.back().pipeline_runs);
    co_await world_.recv(rank, runs, pipeline_tag);
    co_await receive_rails(world_, rank, records.back().rails);
  }
  co_return records;
}

}  // namespace tandem::train
