// The exported functions that make communicators of some ranks of another.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "arguments.hpp"
#include "exchange.hpp"
#include "joining.hpp"
#include "own_ids.hpp"

using namespace tandem::nccl_abi;

namespace {

/// As one of the members, which are ranks of another communicator, where this one has rank `self`.
join_plan plan_of(const std::vector<int>& members, int self, const unique_id& id, bool makes_id) {
  join_plan plan;
  plan.at = decode(id);
  plan.serves = makes_id;
  plan.size = static_cast<int>(members.size());
  plan.rank = static_cast<int>(std::ranges::find(members, self) - members.begin());
  return plan;
}

std::vector<int> ranks_without(const comm_rank& of, const std::vector<int>& left_out) {
  std::vector<int> stay;
  for (int rank = 0; rank < of.size(); ++rank) {
    if (!std::ranges::count(left_out, rank)) stay.push_back(rank);
  }
  return stay;
}

/// A new id, made by the first of the members, which are ranks of `over`.
join_plan meet_again(tandem_comm* over, const std::vector<int>& members) {
  const int self = tandem_comm_rank(over);
  unique_id mine{};
  const bool makes_id = !members.empty() && members.front() == self;
  if (makes_id) mine = own_ids::of_process().make(tandem::settings::from_environment());
  const std::vector<unique_id> all = exchange(over, mine);
  if (members.empty()) return {};
  if (makes_id) own_ids::of_process().release(mine);
  return plan_of(members, self, all[static_cast<std::size_t>(members.front())], makes_id);
}

struct color_and_key {
  int color, key;
};

std::optional<join_plan> plan_split(const comm_rank& of, color_and_key mine) {
  const std::vector<color_and_key> all = exchange(of.channels(), mine);
  std::vector<int> members;
  for (int rank = 0; mine.color >= 0 && rank < of.size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)].color == mine.color) members.push_back(rank);
  }
  std::ranges::stable_sort(members, {},
                           [&](int r) { return all[static_cast<std::size_t>(r)].key; });
  join_plan plan = meet_again(of.channels(), members);
  if (members.empty()) return std::nullopt;
  return plan;
}

/// The ranks that stay send each other messages: those that are left out may be gone, and the store
/// of the job with them.
join_plan plan_shrink(const comm_rank& of, const std::vector<int>& left_out) {
  const std::vector<int> stay = ranks_without(of, left_out);
  unique_id id{};
  const tandem_buffer message{&id, sizeof id, TANDEM_HOST, 0};
  std::vector<tandem_op*> all;
  tandem_error why = TANDEM_ERROR_INIT;
  const bool makes_id = stay.front() == of.rank();
  if (makes_id) {
    id = own_ids::of_process().make(tandem::settings::from_environment());
    for (std::size_t i = 1; i < stay.size(); ++i) {
      require_ok(tandem_send(of.channels(), message, stay[i], TANDEM_MAX_TAG, nullptr,
                             &all.emplace_back(nullptr), &why),
                 why);
    }
  } else {
    require_ok(tandem_recv(of.channels(), message, stay.front(), TANDEM_MAX_TAG, nullptr,
                           &all.emplace_back(nullptr), &why),
               why);
  }
  tandem_status first = TANDEM_OK;
  for (tandem_op* const each : all) {
    tandem_error failed = TANDEM_ERROR_INIT;
    const tandem_status status = tandem_op_wait(each, -1, &failed);
    if (status != TANDEM_OK && first == TANDEM_OK) {
      first = status;
      why = failed;
    }
    tandem_op_release(each);
  }
  require_ok(first, why);
  if (makes_id) own_ids::of_process().release(id);
  return plan_of(stay, of.rank(), id, makes_id);
}

/// Meets at the id that the first of those that stay has made while all could still be asked.
join_plan plan_after_failure(comm_rank& of, const std::vector<int>& left_out) {
  const std::vector<unique_id> ids = of.take_next_ids();
  if (ids.empty()) refuse(invalid_usage, "ncclCommShrink: this communicator was shrunk before");
  const std::vector<int> stay = ranks_without(of, left_out);
  const unique_id none{};
  const unique_id& first = ids[static_cast<std::size_t>(stay.front())];
  if (std::memcmp(&first, &none, sizeof none) == 0) {
    refuse(invalid_usage, fmt::format("ncclCommShrink: rank {} had no address at which others "
                                      "can meet it; its log says why",
                                      stay.front()));
  }
  return plan_of(stay, of.rank(), first, stay.front() == of.rank());
}

}  // namespace

TANDEM_NCCL_FUNCTION(result, ncclCommSplit,
                     (comm of, int color, int key, comm* into, config* how)) {
  return guarded(comm_table::of_process().find(of).get(), [&] {
    require_pointer(into, "ncclCommSplit");
    const auto parent = checked(of, "ncclCommSplit");
    parent->require_ready();
    if (color < no_color) refuse(invalid_argument, fmt::format("ncclCommSplit: color {}", color));
    const bool blocks = is_blocking(how) || color == no_color;
    post_join(
        into,
        [parent, color, key] {
          return plan_split(*parent, {color, key});
        },
        parent->kind(), parent->device(), blocks);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommShrink,
                     (comm of, int* left_out, int count, comm* into, config* how, int flags)) {
  return guarded(comm_table::of_process().find(of).get(), [&] {
    require_pointer(into, "ncclCommShrink");
    const auto parent = checked(of, "ncclCommShrink");
    const bool aborts = flags == shrink_abort;
    if (flags != 0 && !aborts)
      refuse(invalid_argument, fmt::format("ncclCommShrink: flags {}", flags));
    const result now = parent->state();
    if (now == in_progress) parent->require_ready();
    if (now != success && !aborts)
      refuse(invalid_usage,
             "ncclCommShrink of a communicator that has failed: pass NCCL_SHRINK_ABORT");
    const std::vector<int> without(left_out, left_out + std::max(count, 0));
    for (const int each : without) checked_rank(*parent, each, "ncclCommShrink", "rank");
    if (std::ranges::count(without, parent->rank()))
      refuse(invalid_argument, "ncclCommShrink: this rank is to be left out; it must not call it");
    if (aborts) parent->abort("ncclCommShrink was called with NCCL_SHRINK_ABORT");
    post_join(
        into,
        [parent, without, aborts] {
          return aborts ? plan_after_failure(*parent, without) : plan_shrink(*parent, without);
        },
        parent->kind(), parent->device(), is_blocking(how));
  });
}
