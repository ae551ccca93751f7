#include <string_view>
#include <tandem/detail/board.hpp>

#include "plan/cost.hpp"
#include "plan/layout.hpp"

namespace tandem::detail {
namespace {

struct usual_path {
  std::string_view channel;
  std::uint64_t latency_ns;
  std::uint64_t bytes_per_us;
};

constexpr usual_path within_host[] = {
    {"local", 400, 12'000},
    {"shm", 400, 12'000},
    {"rails", 8'000, 4'000},
    {"tcp", 8'000, 4'000},
};
/// Links of 10 Gbit/s with TCP and of 100 Gbit/s with rails.
constexpr usual_path between_hosts[] = {
    {"rails", 8'000, 12'000},
    {"tcp", 30'000, 1'200},
};
/// Device memory: copies between two H200, else staged by the host.
constexpr usual_path devices_within_host[] = {
    {"peer copies", 10'000, 300'000},
    {"forwarding", 30'000, 20'000},
};
constexpr usual_path devices_between_hosts[] = {{"forwarding", 40'000, 5'000}};

template <std::size_t Count>
void use_usual(path_facts& path, const usual_path (&of)[Count]) {
  // Of an unknown channel the values of the last.
  const usual_path* found = &of[Count - 1];
  for (const usual_path& each : of) {
    if (path.channel == each.channel) found = &each;
  }
  path = {path.channel, 0, found->latency_ns, found->bytes_per_us};
}

}  // namespace

facts nominal(const facts& measured) {
  facts result = measured;
  const layout where(measured.host_of_rank);
  if (measured.on_devices) {
    use_usual(result.within, devices_within_host);
    use_usual(result.across, devices_between_hosts);
  } else {
    use_usual(result.within, within_host);
    use_usual(result.across, between_hosts);
  }
  const std::size_t here = where.max_ranks_per_host();
  result.cores = measured.cores == 0 || measured.cores >= here ? 0 : (here + 1) / 2;
  result.has_board = where.hosts() == 1 && where.ranks() >= 2 &&
                     where.ranks() <= board::max_ranks && result.within.channel == "shm";
  return result;
}

int order_of(collective what, algorithm how) noexcept {
  switch (what) {
    case collective::all_reduce:
      return how == algorithm::ring ? 1 : (how == algorithm::two_level ? 2 : 0);
    case collective::reduce:
      return how == algorithm::chain ? 1 : 0;
    case collective::reduce_scatter:
      return how == algorithm::halving_doubling ? 1 : (how == algorithm::two_level ? 2 : 0);
    default:
      return 0;
  }
}

}  // namespace tandem::detail
