#include "streams/slot_launch.hpp"

#include <algorithm>

namespace tandem::detail {
namespace {

/// Appends to the last launch, or to a new one if that is full.
class launch_list {
 public:
  void add(const slot_request& what) {
    if (works_.empty() || works_.back().directions == 0 || is_full(what)) begin(what);
    slot_work& work = works_.back();
    slot_direction& direction = work.direction[work.directions - 1];
    work.message[direction.first_message + direction.messages++] = {what.data, what.bytes};
    work.blocks = std::max(work.blocks, blocks_for(what.bytes));
    slot_counts& counts = what.between->counts(what.is_send);
    for (unsigned block = 0; block < slot_blocks; ++block) {
      counts[block] += part_of(what.bytes, block).pieces();
    }
  }
  std::vector<slot_work> take() { return std::move(works_); }

 private:
  static unsigned messages(const slot_work& work) {
    const slot_direction& last = work.direction[work.directions - 1];
    return last.first_message + last.messages;
  }
  bool is_full(const slot_request& what) {
    const slot_work& work = works_.back();
    const slot_direction& last = work.direction[work.directions - 1];
    const bool is_same = last.own == what.between->own && (last.is_send != 0) == what.is_send;
    return !is_same || messages(work) == slot_work::max_messages;
  }
  /// A direction.
  void begin(const slot_request& what) {
    const bool has_room = !works_.empty() && works_.back().directions < slot_work::max_directions &&
                          messages(works_.back()) < slot_work::max_messages;
    if (!has_room) works_.emplace_back();
    slot_work& work = works_.back();
    const unsigned first = work.directions == 0 ? 0 : messages(work);
    slot_direction& made = work.direction[work.directions++];
    made.own = what.between->own;
    made.other = what.between->other;
    made.report = what.between->report;
    made.is_send = what.is_send ? 1 : 0;
    made.first_message = first;
    std::ranges::copy(what.between->counts(what.is_send), made.counts);
  }

  std::vector<slot_work> works_;
};

}  // namespace

std::vector<slot_work> plan_launches(std::span<const slot_request> messages) {
  std::vector<slot_request> sorted;
  for (const slot_request& each : messages) {
    if (each.bytes > 0) sorted.push_back(each);
  }
  const auto key = [](const slot_request& of) { return std::pair(!of.is_send, of.between->own); };
  std::ranges::stable_sort(sorted, {}, key);
  launch_list launches;
  for (const slot_request& each : sorted) launches.add(each);
  return launches.take();
}

}  // namespace tandem::detail
