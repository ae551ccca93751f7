#include "streams/slot_launch.hpp"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <tuple>
#include <utility>

namespace tandem::detail {
namespace {

slot_direction direction_of(slot_end& between, bool is_send) {
  slot_direction made;
  made.own = between.own;
  made.other = between.other;
  made.progress = between.progress;
  made.report = between.report;
  made.is_send = is_send ? 1 : 0;
  made.first_message = made.messages = 0;
  std::ranges::copy(between.counts(is_send), made.counts);
  return made;
}

void count(slot_end& between, bool is_send, std::uint64_t bytes) {
  slot_counts& counts = between.counts(is_send);
  for (unsigned block = 0; block < blocks_for(bytes); ++block) {
    counts[block] += part_of(bytes, block).pieces();
  }
}

/// The kernel that is being filled.
class next_launch {
 public:
  explicit next_launch(const std::function<void(slot_work&)>& launch) : launch_(launch) {
    work_.blocks = work_.directions = 0;
  }

  void add(const slot_request& what) {
    if (!goes_on(what)) begin(what);
    slot_direction& direction = last();
    work_.message[direction.first_message + direction.messages++] = {what.data, what.head};
    work_.blocks = std::max(work_.blocks, blocks_for(what.head.bytes));
    count(*what.between, what.is_send, what.head.bytes);
  }
  void flush() {
    if (work_.directions > 0) launch_(work_);
    work_.blocks = work_.directions = 0;
  }

 private:
  slot_direction& last() { return work_.direction[work_.directions - 1]; }
  unsigned messages() { return work_.directions == 0 ? 0 : last().first_message + last().messages; }
  bool goes_on(const slot_request& what) {
    return work_.directions > 0 && messages() < slot_work::max_messages &&
           last().own == what.between->own && (last().is_send != 0) == what.is_send;
  }
  /// A direction.
  void begin(const slot_request& what) {
    const bool is_full =
        work_.directions == slot_work::max_directions || messages() == slot_work::max_messages;
    if (is_full) flush();
    const unsigned first = messages();
    slot_direction& made = work_.direction[work_.directions++];
    made = direction_of(*what.between, what.is_send);
    made.first_message = first;
  }

  const std::function<void(slot_work&)>& launch_;
  slot_work work_;  // what is used has contents
};

/// Whether it is a message, or one each way between the same ranks, which need no order.
bool are_few(std::span<const slot_request> messages) {
  if (messages.empty() || messages.size() > 2) return false;
  const slot_request &first = messages.front(), &last = messages.back();
  const bool are_both_ways = first.between == last.between && first.is_send != last.is_send;
  return first.head.bytes > 0 && last.head.bytes > 0 && (messages.size() == 1 || are_both_ways);
}

}  // namespace

void launch_messages(std::span<const slot_request> messages,
                     const std::function<void(slot_work& work)>& launch) {
  if (are_few(messages)) {
    next_launch next(launch);
    for (const bool are_sends : {true, false}) {
      for (const slot_request& each : messages) {
        if (each.is_send == are_sends) next.add(each);
      }
    }
    return next.flush();
  }
  struct direction {
    slot_end* between;
    bool is_send;
    unsigned messages = 0;
  };
  struct numbered {
    const slot_request* what;
    unsigned number;  ///< in its direction, then of its launch
  };
  boost::container::small_vector<direction, 4> directions;
  boost::container::small_vector<numbered, 8> sorted;
  sorted.reserve(messages.size());
  for (const slot_request& each : messages) {
    if (each.head.bytes == 0) continue;
    const auto found = std::ranges::find_if(directions, [&each](const direction& of) {
      return of.between == each.between && of.is_send == each.is_send;
    });
    direction& in = found != directions.end()
                        ? *found
                        : directions.emplace_back(direction{each.between, each.is_send});
    sorted.push_back({&each, in.messages++});
  }
  const auto of_each = static_cast<unsigned>(
      sorted.size() <= slot_work::max_messages
          ? sorted.size()
          : std::max(slot_work::max_messages / directions.size(), std::size_t{1}));
  for (numbered& each : sorted) each.number /= of_each;
  std::ranges::stable_sort(sorted, {}, [](const numbered& of) {
    return std::tuple(of.number, !of.what->is_send, of.what->between->own);
  });
  next_launch next(launch);
  for (unsigned number = 0; const numbered& each : sorted) {
    if (std::exchange(number, each.number) != each.number) next.flush();
    next.add(*each.what);
  }
  next.flush();
}

std::optional<short_slot_work> as_short(const slot_work& work) {
  const slot_direction& last = work.direction[work.directions - 1];
  const unsigned messages = last.first_message + last.messages;
  if (work.directions > short_slot_work::max_directions) return std::nullopt;
  if (messages > short_slot_work::max_messages) return std::nullopt;
  short_slot_work made;
  made.blocks = work.blocks;
  made.directions = work.directions;
  std::copy_n(work.direction, work.directions, made.direction);
  std::copy_n(work.message, messages, made.message);
  return made;
}

slot_exchange plan_exchange(slot_end& between, const slot_head& head, bool sends) {
  slot_exchange made{};
  made.send = direction_of(between, true);
  made.receive = direction_of(between, false);
  made.head = head;
  if (sends) count(between, true, head.bytes);
  count(between, false, head.bytes);
  return made;
}

}  // namespace tandem::detail
