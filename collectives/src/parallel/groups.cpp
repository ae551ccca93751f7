#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tandem/async.hpp>
#include <tandem/parallel.hpp>
#include <type_traits>
#include <utility>

#include "communicator/agreement.hpp"
#include "communicator/group.hpp"
#include "islands/parts.hpp"

namespace tandem {
namespace {

/// What ranks exchange when they make groups: a line that must be equal, and data that may differ.
template <class Own>
struct statements {
  static_assert(std::is_trivially_copyable_v<Own>);

  static std::string pack(std::string line, const Own& own) {
    line += '\n';
    return line.append(reinterpret_cast<const char*>(&own), sizeof own);
  }
  /// @pre each text was made by `pack`.
  explicit statements(std::vector<std::string> texts) : lines(std::move(texts)) {
    for (std::string& line : lines) {
      std::memcpy(&own.emplace_back(), line.data() + line.size() - sizeof(Own), sizeof(Own));
      line.resize(line.size() - sizeof(Own));
    }
  }
  void check() const {
    if (const auto found = detail::difference_of(lines)) throw detail::disagreement(*found);
  }

  std::vector<std::string> lines;
  std::vector<Own> own;  ///< by rank
};

struct group_request {
  std::int32_t colour = 0, key = 0;
};

std::vector<rank_facts> facts_of(const std::vector<detail::island_fact>& reported) {
  std::vector<rank_facts> result;
  for (const detail::island_fact& one : reported) {
    result.push_back({static_cast<memory_kind>(one.kind), one.colour, one.library,
                      std::string(one.uuid.data(), one.uuid.size())});
  }
  return result;
}

rank_groups groups_of(std::string name, const std::vector<group_request>& requests) {
  std::map<std::int32_t, std::vector<int>> by_colour;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    if (requests[r].colour >= 0) by_colour[requests[r].colour].push_back(static_cast<int>(r));
  }
  rank_groups result{std::move(name), {}};
  for (auto& [colour, ranks] : by_colour) {
    std::ranges::stable_sort(
        ranks, {}, [&requests](int r) { return requests[static_cast<std::size_t>(r)].key; });
    result.members.push_back(std::move(ranks));
  }
  return result;
}

/// @param ways  by rank: the transport to the next rank of its group
std::vector<group_choice> choices_of(const rank_groups& groups,
                                     const std::vector<rank_facts>& reported,
                                     const std::vector<std::string>& transports) {
  return choose_backends(groups, reported, [&transports](int from, int /*to*/) {
    return transports[static_cast<std::size_t>(from)];
  });
}

memory_kind kind_at(int index, const group_choice& in, const std::vector<rank_facts>& reported) {
  const int rank = in.ranks[static_cast<std::size_t>(index)];
  return reported[static_cast<std::size_t>(rank)].kind;
}

/// Exchanges empty messages, which completes the set-up of the transport between both ranks.
asio::awaitable<void> handshake(communicator& in, int peer) {
  const const_view nothing{};
  const mutable_view nowhere{};
  co_await in.sendrecv(peer, nothing, peer, nowhere);
}

/// The transport from this rank to the next one of the group; empty if the group does not use that
/// path.
asio::awaitable<std::string> transport_to_next(communicator& in, const group_choice& choice,
                                               const std::vector<rank_facts>& reported) {
  const int me = in.rank(), n = in.size();
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  const bool uses_path = choice.uses_path(static_cast<std::size_t>(me));
  std::vector<asio::awaitable<void>> both;
  if (uses_path) both.push_back(handshake(in, next));
  if (choice.uses_path(static_cast<std::size_t>(before))) both.push_back(handshake(in, before));
  co_await when_all(std::move(both));
  if (!uses_path) co_return std::string();
  const detail::group& g = *in.internals();
  const memory_kind here = kind_at(me, choice, reported), there = kind_at(next, choice, reported);
  co_return g.over().path_to(g.member(next), here, there);
}

}  // namespace

parallel_groups::parallel_groups(communicator& all, island_member mine,
                                 std::vector<rank_facts> reported)
    : all_(all), mine_(mine), reported_(std::move(reported)) {}
parallel_groups::~parallel_groups() = default;

asio::awaitable<std::unique_ptr<parallel_groups>> parallel_groups::make(communicator& all,
                                                                        parallel_layout layout,
                                                                        island_member mine) {
  using statement = statements<detail::island_fact>;
  detail::island_fact own{};
  std::string line = fmt::format("layout {}", layout.text());
  std::exception_ptr failure;
  try {
    own = detail::own_fact(mine);
  } catch (...) {
    failure = std::current_exception();
    line = describe(failure);
  }
  std::string text = statement::pack(std::move(line), own);
  std::vector<std::string> texts = co_await detail::exchange_texts(all, std::move(text));
  if (failure) std::rethrow_exception(failure);
  const statement reported(std::move(texts));
  reported.check();
  layout.check(all.size());

  std::unique_ptr<parallel_groups> made(new parallel_groups(all, mine, facts_of(reported.own)));
  for (std::size_t i = 0; i < layout.dimensions().size(); ++i) {
    const rank_groups groups = layout.groups(i);
    co_await made->add_groups(groups);
  }
  co_return made;
}

asio::awaitable<communicator*> parallel_groups::add(std::string name, int colour, int key) {
  using statement = statements<group_request>;
  std::string text = statement::pack(fmt::format("group {}", name), group_request{colour, key});
  std::vector<std::string> texts = co_await detail::exchange_texts(all_, std::move(text));
  const statement reported(std::move(texts));
  reported.check();
  parallel_layout::check_name(name);
  if (std::ranges::find(names_, name) != names_.end()) {
    throw error(errc::bad_option, fmt::format("group {}: the name is in use", name),
                "give each group its own name");
  }
  const std::size_t before = groups_.size();
  const rank_groups groups = groups_of(std::move(name), reported.own);
  co_await add_groups(groups);
  co_return groups_.size() > before ? groups_.back().ranks.get() : nullptr;
}

/// A failure on one rank ends the communicator and thereby fails on every rank.
asio::awaitable<void> parallel_groups::add_groups(const rank_groups& groups) {
  std::vector<std::string> transports(reported_.size());
  std::vector<group_choice> choices = choices_of(groups, reported_, transports);
  const std::optional<std::size_t> own = groups.find(all_.rank());
  int colour = -1, key = 0;
  if (own) {
    const std::vector<int>& ranks = choices[*own].ranks;
    colour = static_cast<int>(*own);
    key = static_cast<int>(std::ranges::find(ranks, all_.rank()) - ranks.begin());
  }
  std::unique_ptr<communicator> ranks = co_await all_.split(colour, key);
  std::string transport;
  if (own) transport = co_await transport_to_next(*ranks, choices[*own], reported_);
  transports = co_await detail::exchange_texts(all_, std::move(transport));
  choices = choices_of(groups, reported_, transports);
  std::string text = text_of(choices);
  co_await detail::compare_plans(all_, std::move(text));

  names_.push_back(groups.name);
  if (own) {
    if (choices[*own].has_islands()) co_await detail::add_islands(*ranks, mine_);
    groups_.push_back({choices[*own], std::move(ranks)});
  }
  agreed_.insert(agreed_.end(), choices.begin(), choices.end());
  // The barrier reports a failed library initialisation also to ranks whose own succeeded.
  if (std::ranges::any_of(choices, &group_choice::has_islands)) co_await barrier(all_);
}

const parallel_groups::own_group& parallel_groups::find(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const own_group& each : groups_) {
    if (each.choice.name == name) return each;
    names.push_back(each.choice.name);
  }
  throw error(errc::bad_input, fmt::format("{}: this rank has no group of that name", name),
              suggestion_for(name, names));
}

}  // namespace tandem
