#include "streams/kernel_steps.hpp"

#include <algorithm>
#include <vector>

namespace tandem::detail {
namespace {

/// Of what a kernel accesses at a time; a multiple of all elements.
constexpr std::size_t alignment = 128;
/// Up to which one step costs less than twice the latency. Not measured yet.
constexpr std::size_t max_one_step_bytes = 128 * 1024;
/// A message counts its bytes in 32 bits.
constexpr std::size_t max_message_bytes = std::size_t{1} << 30;

constexpr std::size_t round_down(std::size_t bytes) {
  return bytes / alignment * alignment;
}
constexpr std::size_t round_up(std::size_t bytes) {
  return round_down(bytes + alignment - 1);
}

/// Whether one kernel receives and combines, and sends: of any length, at the rate of the link
/// (bench/RESULTS.md, kernels on two GPUs).
bool combines_at_once(const kernel_collective& what) noexcept {
  return reduces(what.what) && what.ranks == 2;
}

}  // namespace

bool uses_scratch(const kernel_collective& what) noexcept {
  return what.prepares || (reduces(what.what) && !combines_at_once(what));
}

namespace {

/// The steps of one call.
class sequence {
 public:
  sequence(const kernel_collective& of, std::span<char> scratch, kernel_steps& by)
      : of_(of), scratch_(scratch), by_(by), ranks_(static_cast<std::size_t>(of.ranks)) {}

  void run() {
    switch (of_.what) {
      case collective::broadcast:
        return broadcast();
      case collective::reduce:
        return reduce();
      case collective::all_gather:
        return all_gather();
      case collective::reduce_scatter:
        return reduce_scatter();
      default:
        return of_.ranks > 2 && of_.bytes > max_one_step_bytes ? all_reduce_in_two() : all_reduce();
    }
  }

 private:
  using transfer = kernel_steps::transfer;

  /// Calls `part(offset, bytes)` for parts of at most so many bytes.
  template <class Part>
  void in_parts(std::size_t max_bytes, Part part) const {
    for (std::size_t at = 0; at < of_.bytes; at += max_bytes) {
      part(at, std::min(max_bytes, of_.bytes - at));
    }
  }
  /// Of a call, so many of which fit into the scratch memory.
  std::size_t part_bytes(std::size_t count) const {
    return uses_scratch(of_) ? round_down(scratch_.size() / count) : max_message_bytes;
  }
  template <class Use>
  void each_other(Use use) const {
    for (int r = 0; r < of_.ranks; ++r) {
      if (r != of_.rank) use(r);
    }
  }

  /// Adds a message, unless it is empty.
  void send(int to, const char* data, std::size_t bytes) {
    if (bytes > 0) messages_.push_back({to, true, const_cast<char*>(data), bytes});
  }
  void receive(int from, char* data, std::size_t bytes) {
    if (bytes > 0) messages_.push_back({from, false, data, bytes});
  }
  void exchange() {
    if (!messages_.empty()) by_.exchange(messages_);
    messages_.clear();
  }

  // The scratch memory: a slot for the data of each other rank, then this rank's own as prepared.

  char* slot(int of, std::size_t bytes) const {
    const int index = of < of_.rank ? of : of - 1;
    return scratch_.data() + static_cast<std::size_t>(index) * round_up(bytes);
  }
  /// @param slot_bytes  of each slot before it
  const char* prepared(const char* own, std::size_t bytes, std::size_t slot_bytes) const {
    if (!of_.prepares) return own;
    char* const into = slot(of_.ranks, slot_bytes);
    by_.prepare(into, own, bytes);
    return into;
  }

  /// Of this rank's data and what the slots contain, in the order of the ranks. Changes the slots.
  void combine_all(const char* own, char* into, std::size_t bytes) const {
    if (bytes == 0) return;
    const auto data_of = [&](int r) { return r == of_.rank ? own : slot(r, bytes); };
    const char* so_far = data_of(0);
    for (int r = 1; r < of_.ranks; ++r) {
      const int slot_of = of_.rank == 0 ? 1 : 0;  // of the sum of all but the last
      char* const target = r == of_.ranks - 1 ? into : slot(slot_of, bytes);
      by_.combine(target, so_far, data_of(r), bytes);
      so_far = target;
    }
    by_.finish(into, bytes);
  }

  /// A part of the result. @param sent, combined  of both ranks' data what they are combined with;
  ///   none is sent to a root
  void combine_at_once(const char* sent, const char* combined, std::size_t at, std::size_t bytes) {
    by_.exchange_and_combine({sent, combined, of_.into + at, bytes});
    by_.finish(of_.into + at, bytes);
  }

  void all_reduce() {
    in_parts(part_bytes(ranks_), [this](std::size_t at, std::size_t bytes) {
      const char* const own = prepared(of_.from + at, bytes, bytes);
      if (combines_at_once(of_)) return combine_at_once(own, own, at, bytes);
      each_other([&](int r) { receive(r, slot(r, bytes), bytes); });
      each_other([&](int r) { send(r, own, bytes); });
      exchange();
      combine_all(own, of_.into + at, bytes);
    });
  }

  void all_reduce_in_two() {
    const std::size_t most = round_down((scratch_.size() - ranks_ * alignment) / 2);
    in_parts(most, [this](std::size_t at, std::size_t bytes) {
      const std::size_t share = round_up((bytes + ranks_ - 1) / ranks_);
      const auto first = [=](int r) {
        return std::min(bytes, static_cast<std::size_t>(r) * share);
      };
      const auto length = [=](int r) { return first(r + 1) - first(r); };
      const std::size_t mine = length(of_.rank);
      const char* const own = prepared(of_.from + at, bytes, mine);
      each_other([&](int r) { receive(r, slot(r, mine), mine); });
      each_other([&](int r) { send(r, own + first(r), length(r)); });
      exchange();
      char* const into = of_.into + at;
      combine_all(own + first(of_.rank), into + first(of_.rank), mine);
      each_other([&](int r) { receive(r, into + first(r), length(r)); });
      each_other([&](int r) { send(r, into + first(of_.rank), mine); });
      exchange();
    });
  }

  void reduce_scatter() {
    in_parts(part_bytes(2 * ranks_), [this](std::size_t at, std::size_t bytes) {
      const std::size_t stride = of_.prepares ? round_up(bytes) : of_.bytes;
      const char* own = of_.from + at;
      if (of_.prepares) {
        char* const into = slot(of_.ranks, bytes);
        for (std::size_t r = 0; r < ranks_; ++r) {
          by_.prepare(into + r * stride, of_.from + r * of_.bytes + at, bytes);
        }
        own = into;
      }
      const auto block = [=](int r) { return own + static_cast<std::size_t>(r) * stride; };
      if (combines_at_once(of_)) {
        return combine_at_once(block(1 - of_.rank), block(of_.rank), at, bytes);
      }
      each_other([&](int r) { receive(r, slot(r, bytes), bytes); });
      each_other([&](int r) { send(r, block(r), bytes); });
      exchange();
      combine_all(block(of_.rank), of_.into + at, bytes);
    });
  }

  void reduce() {
    in_parts(part_bytes(ranks_), [this](std::size_t at, std::size_t bytes) {
      const char* const own = prepared(of_.from + at, bytes, bytes);
      if (of_.rank != of_.root) {
        send(of_.root, own, bytes);
        return exchange();
      }
      if (combines_at_once(of_)) return combine_at_once(nullptr, own, at, bytes);
      each_other([&](int r) { receive(r, slot(r, bytes), bytes); });
      exchange();
      combine_all(own, of_.into + at, bytes);
    });
  }

  void broadcast() {
    in_parts(max_message_bytes, [this](std::size_t at, std::size_t bytes) {
      if (of_.rank == of_.root) {
        each_other([&](int r) { send(r, of_.from + at, bytes); });
      } else {
        receive(of_.root, of_.into + at, bytes);
      }
      exchange();
    });
  }

  void all_gather() {
    const auto block = [this](int r) { return of_.into + static_cast<std::size_t>(r) * of_.bytes; };
    if (of_.from != block(of_.rank)) by_.copy(block(of_.rank), of_.from, of_.bytes);
    in_parts(max_message_bytes, [&](std::size_t at, std::size_t bytes) {
      each_other([&](int r) { receive(r, block(r) + at, bytes); });
      each_other([&](int r) { send(r, of_.from + at, bytes); });
      exchange();
    });
  }

  const kernel_collective& of_;
  const std::span<char> scratch_;
  kernel_steps& by_;
  const std::size_t ranks_;
  std::vector<transfer> messages_;
};

}  // namespace

void queue_steps(const kernel_collective& what, std::span<char> scratch, kernel_steps& by) {
  sequence(what, scratch, by).run();
}

}  // namespace tandem::detail
