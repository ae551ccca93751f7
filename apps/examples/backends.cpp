// Which back-end each group of a job of NVIDIA and AMD ranks gets: computed without any GPU.
#include <iostream>
#include <string>
#include <tandem/tandem.hpp>
#include <vector>

int main() {
  // Eight ranks in two islands: four with NVIDIA GPUs and NCCL, four with AMD GPUs and RCCL.
  std::vector<tandem::rank_facts> ranks(8);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].kind = rank < 4 ? tandem::memory_kind::cuda : tandem::memory_kind::hip;
    ranks[rank].library = tandem::rank_facts::unknown_version;
    ranks[rank].device = "device " + std::to_string(rank);
  }
  const auto transport = [&](int from, int to) {
    return tandem::devices::expected_transport(ranks[static_cast<std::size_t>(from)].kind,
                                               ranks[static_cast<std::size_t>(to)].kind, {}, "tcp");
  };

  const auto layout = tandem::parallel_layout::parse("pipeline=2,tensor=4");
  for (std::size_t dimension = 0; dimension < layout.dimensions().size(); ++dimension) {
    const tandem::rank_groups groups = layout.groups(dimension);
    std::cout << tandem::text_of(tandem::choose_backends(groups, ranks, transport));
  }
  const tandem::rank_groups all{.name = "all", .members = {{0, 1, 2, 3, 4, 5, 6, 7}}};
  std::cout << tandem::text_of(tandem::choose_backends(all, ranks, transport));
}
