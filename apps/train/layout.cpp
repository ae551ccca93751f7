#include "layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <tandem/error.hpp>

#include "cli/text.hpp"

namespace tandem::train {
namespace {

[[noreturn]] void refuse(std::string what, std::string advice) {
  throw error(errc::bad_option, std::move(what), std::move(advice));
}

std::string divisors(int n) {
  std::vector<int> result;
  for (int i = 1; i <= n; ++i) {
    if (n % i == 0) result.push_back(i);
  }
  return fmt::format("{}", fmt::join(result, ", "));
}

std::vector<island> islands_of(const layout_options& requested) {
  if (!requested.islands.empty()) return parse_islands(requested.islands);
  const int ranks = requested.ranks > 0 ? requested.ranks : 4;
  if (ranks == 1) return {{"nvidia", 1}};
  if (ranks % 2 == 0) return {{"nvidia", ranks / 2}, {"amd", ranks / 2}};
  refuse(fmt::format("{} ranks do not divide into two islands of equal size", ranks),
         fmt::format("choose the islands: --islands nvidia:{},amd:{} --stages {}", ranks - 1, 1,
                     ranks));
}

/// "4 stages", "4 stages of 2 chunks"
std::string stages_text(int stages, int chunks) {
  const std::string text = fmt::format("{} stage{}", stages, stages == 1 ? "" : "s");
  return chunks == 1 ? text : fmt::format("{} of {} chunks", text, chunks);
}

std::vector<int> split_of(const layout_options& requested, int stages, int model_layers) {
  const int pieces = stages * requested.chunks;
  const std::string& text = requested.split;
  if (pieces > model_layers) {
    refuse(fmt::format("{} cannot share {} layers", stages_text(stages, requested.chunks),
                       model_layers),
           requested.chunks == 1
               ? fmt::format("choose --stages 1 to {} or a deeper --model", model_layers)
               : "choose fewer --stages or --chunks, or a deeper --model");
  }
  std::vector<int> split(static_cast<std::size_t>(pieces), model_layers / pieces);
  // The last stage also holds the head, so the remainder of the layers goes to the first stages.
  for (int i = 0; i < model_layers % pieces; ++i) ++split[static_cast<std::size_t>(i)];
  if (text.empty()) return split;

  const std::string even =
      fmt::format("the model has {} layers and the pipeline {}: --split {}", model_layers,
                  stages_text(stages, requested.chunks), fmt::join(split, ","));
  const char* const piece_name = requested.chunks == 1 ? "stage" : "chunk";
  split.clear();
  for (const std::string& piece : cli::split_commas(text)) {
    split.push_back(cli::parse_integer(piece, 1, 65536).value_or(0));
  }
  if (static_cast<int>(split.size()) != pieces) {
    refuse(fmt::format("--split {} has {} {}s", text, split.size(), piece_name), even);
  }
  for (const int layers : split) {
    if (layers == 0)
      refuse(fmt::format("--split {}: every {} needs at least one layer", text, piece_name), even);
  }
  if (const int sum = std::accumulate(split.begin(), split.end(), 0); sum != model_layers) {
    refuse(fmt::format("--split {} adds up to {} layers", text, sum), even);
  }
  return split;
}

std::string range_text(int first, int count) {
  return count == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, first + count - 1);
}

}  // namespace

layout::layout(const layout_options& requested, int model_layers)
    : islands_(islands_of(requested)), chunks_(requested.chunks), placement_(requested.placement) {
  int ranks = 0;
  for (const island& one : islands_) ranks += one.ranks;
  if (requested.ranks > 0 && requested.ranks != ranks) {
    refuse(fmt::format("--islands {} has {} ranks, but the job has {}", requested.islands, ranks,
                       requested.ranks),
           "make the two numbers equal");
  }
  const int stages = requested.stages > 0 ? requested.stages : static_cast<int>(islands_.size());
  if (ranks % stages != 0) {
    refuse(fmt::format("{} ranks do not divide into {} stages", ranks, stages),
           fmt::format("choose --stages {}", divisors(ranks)));
  }
  replicas_ = ranks / stages;
  int first = 0;
  for (const island& one : islands_) {
    if (first % replicas_ != 0 || one.ranks % replicas_ != 0) {
      refuse(fmt::format("stages of {} ranks do not fill the islands: {} has {}", replicas_,
                         one.name, one.ranks),
             "a stage may not span islands; choose another number of --stages or other --islands");
    }
    first += one.ranks;
  }
  split_ = split_of(requested, stages, model_layers);
}

layout layout::single(int model_layers) {
  layout one;
  one.islands_ = {{"alone", 1}};
  one.split_ = {model_layers};
  return one;
}

layout layout::with_replicas(int count) const {
  layout fewer = *this;
  for (island& one : fewer.islands_) one.ranks = one.ranks / replicas_ * count;
  fewer.replicas_ = count;
  return fewer;
}

rank_location layout::at(int rank) const {
  rank_location result;
  result.stage = rank / replicas_;
  result.replica = rank % replicas_;
  for (int first = 0; first + islands_[static_cast<std::size_t>(result.island)].ranks <= rank;) {
    first += islands_[static_cast<std::size_t>(result.island++)].ranks;
  }
  return result;
}

layer_range layout::layers_of(int rank, int chunk) const {
  const int piece = stage_of(placement_, {at(rank).stage, chunk}, stages());
  return {std::accumulate(split_.begin(), split_.begin() + piece, 0),
          split_[static_cast<std::size_t>(piece)]};
}

std::vector<int> layout::pipeline(int replica) const {
  std::vector<int> ranks;
  for (int stage = 0; stage < stages(); ++stage) ranks.push_back(rank_of(stage, replica));
  return ranks;
}

std::vector<int> layout::replicas_of(int stage) const {
  std::vector<int> ranks;
  for (int replica = 0; replica < replicas_; ++replica) ranks.push_back(rank_of(stage, replica));
  return ranks;
}

std::string layout::text() const {
  std::string result = fmt::format("{} x {} replica{}, layers {}", stages_text(stages(), chunks_),
                                   replicas_, replicas_ == 1 ? "" : "s", fmt::join(split_, "+"));
  int first = 0;
  for (const island& one : islands_) {
    result += fmt::format(", {} rank{} {}", one.name, one.ranks == 1 ? "" : "s",
                          range_text(first, one.ranks));
    first += one.ranks;
  }
  return result;
}

std::vector<int> complete_replicas(const layout& before, const std::vector<int>& left) {
  std::vector<int> complete;
  for (int replica = 0; replica < before.replicas(); ++replica) {
    const std::vector<int> ranks = before.pipeline(replica);
    const bool all = std::all_of(ranks.begin(), ranks.end(), [&left](int rank) {
      return std::find(left.begin(), left.end(), rank) != left.end();
    });
    if (all) complete.push_back(replica);
  }
  return complete;
}

std::vector<int> ranks_of(const layout& before, const std::vector<int>& replicas) {
  std::vector<int> ranks;
  for (const int replica : replicas) {
    const std::vector<int> of_replica = before.pipeline(replica);
    ranks.insert(ranks.end(), of_replica.begin(), of_replica.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace tandem::train
