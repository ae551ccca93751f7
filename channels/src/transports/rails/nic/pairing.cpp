#include "transports/rails/nic/pairing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "transports/rails/nic/nic.hpp"

namespace tandem::rails {
namespace {

using rails_of = std::vector<published_rail>;

struct endpoints {
  std::size_t first = 0, second = 0;
};

bool can_talk(const listen_endpoint& a, const listen_endpoint& b) {
  return a.where.is_v4() == b.where.is_v4() && a.where.is_loopback() == b.where.is_loopback();
}

bool share_a_subnet(const listen_endpoint& a, const listen_endpoint& b) {
  return can_talk(a, b) && a.prefix == b.prefix && in_subnet(a.where, b.where, a.prefix);
}

template <class Fit>
std::optional<endpoints> find_endpoints(const published_rail& a, const published_rail& b, Fit fit) {
  for (std::size_t i = 0; i < a.endpoints.size(); ++i) {
    for (std::size_t j = 0; j < b.endpoints.size(); ++j) {
      if (fit(a.endpoints[i], b.endpoints[j])) return endpoints{i, j};
    }
  }
  return std::nullopt;
}

/// `first` and `second` are the two ends in the order that both compute.
class matcher {
 public:
  matcher(const rails_of& first, const rails_of& second)
      : first_(first),
        second_(second),
        first_taken_(first.size(), false),
        second_taken_(second.size(), false) {}

  std::vector<rail_pair> match() {
    match_by_subnet();
    for (std::size_t i = 0; i < first_.size(); ++i) {
      for (std::size_t j = 0; j < second_.size() && !first_taken_[i]; ++j) {
        take(i, j, false);
      }
    }
    std::sort(pairs_.begin(), pairs_.end(),
              [](const rail_pair& a, const rail_pair& b) { return a.local < b.local; });
    return std::move(pairs_);
  }

 private:
  /// Nearest positions first, so that the same NICs of two equal machines are paired.
  void match_by_subnet() {
    const std::size_t longest = std::max(first_.size(), second_.size());
    for (std::size_t apart = 0; apart < longest; ++apart) {
      for (std::size_t i = 0; i < first_.size(); ++i) {
        if (i >= apart) take(i, i - apart, true);
        take(i, i + apart, true);
      }
    }
  }

  void take(std::size_t i, std::size_t j, bool by_subnet) {
    if (j >= second_.size() || first_taken_[i] || second_taken_[j]) return;
    const auto fit = by_subnet ? share_a_subnet : can_talk;
    const std::optional<endpoints> found = find_endpoints(first_[i], second_[j], fit);
    if (!found) return;
    first_taken_[i] = second_taken_[j] = true;
    pairs_.push_back({i, j, found->first, found->second, by_subnet});
  }

  const rails_of& first_;
  const rails_of& second_;
  std::vector<bool> first_taken_, second_taken_;
  std::vector<rail_pair> pairs_;
};

bool only_loopback(const published_rail& one) {
  return std::all_of(one.endpoints.begin(), one.endpoints.end(),
                     [](const listen_endpoint& d) { return d.where.is_loopback(); });
}

std::string count(std::size_t rails) {
  return fmt::format("{} rail{}", rails, rails == 1 ? "" : "s");
}

std::string why_alone(const published_rail& one, const rails_of& others, std::string_view whose) {
  if (one.endpoints.empty()) return fmt::format("{}: it has no address", one.interface);
  const bool loopback = only_loopback(one);
  const bool partner = std::any_of(others.begin(), others.end(), [&one](const auto& other) {
    return find_endpoints(one, other, can_talk).has_value();
  });
  if (partner) return fmt::format("{}: {} only {}", one.interface, whose, count(others.size()));
  if (others.empty()) return fmt::format("{}: {} no rail", one.interface, whose);
  return fmt::format("{}: {} no rail with {}", one.interface, whose,
                     loopback ? "a loopback address" : "an address that this one could reach");
}

void explain_unpaired(bool is_local, const rails_of& own, const rails_of& others, pairing& into) {
  for (std::size_t i = 0; i < own.size(); ++i) {
    const bool paired = std::any_of(into.pairs.begin(), into.pairs.end(), [&](const rail_pair& p) {
      return (is_local ? p.local : p.remote) == i;
    });
    if (paired) continue;
    const std::string_view whose = is_local ? "the peer has" : "this rank has";
    into.unpaired.push_back({is_local, i, why_alone(own[i], others, whose)});
  }
}

}  // namespace

pairing pair_rails(const rails_of& local, const rails_of& remote) {
  // Ends that publish the same text are paired position by position, so their order does not
  // matter.
  const bool local_first = encode(local) <= encode(remote);
  pairing found;
  found.pairs = local_first ? matcher(local, remote).match() : matcher(remote, local).match();
  if (!local_first) {
    for (rail_pair& p : found.pairs) {
      std::swap(p.local, p.remote);
      std::swap(p.local_endpoint_index, p.remote_endpoint_index);
    }
  }
  explain_unpaired(true, local, remote, found);
  explain_unpaired(false, remote, local, found);
  return found;
}

}  // namespace tandem::rails
