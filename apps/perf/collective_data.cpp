#include "perf/collective_data.hpp"

#include <utility>
#include <vector>

#include "perf/pattern.hpp"

namespace tandem::perf {

namespace {

/// A block: the rank whose pattern it carries, and its slot.
struct block {
  int sender = 0, slot = 0;
};

/// Data of operations that move equal blocks unchanged.
class moved_data : public collective_data {
 public:
  moved_data(std::vector<block> sent, std::vector<block> received, std::size_t block_bytes,
             memory_source from)
      : sent_(std::move(sent)),
        received_(std::move(received)),
        block_bytes_(block_bytes),
        out_(sent_.size() * block_bytes, from),
        in_(received_.size() * block_bytes, from) {}

  void prepare(std::uint64_t epoch) override {
    for (std::size_t i = 0; i < sent_.size(); ++i) fill(of(out_, i), id(sent_[i], epoch), 0);
    clear(in_.bytes());
  }
  void before(std::uint64_t epoch, std::uint64_t iteration, bool) override {
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      mark(of(out_, i), id(sent_[i], epoch), iteration);
    }
  }
  std::uint64_t after(std::uint64_t epoch, std::uint64_t iteration) override {
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < received_.size(); ++i) {
      wrong += wrong_marks(of(in_, i), id(received_[i], epoch), iteration);
    }
    return wrong;
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t iteration) override {
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < received_.size(); ++i) {
      wrong += perf::wrong_bytes(of(in_, i), id(received_[i], epoch), iteration);
    }
    return wrong;
  }
  std::span<std::byte> input() override { return out_.bytes(); }
  std::span<std::byte> output() override { return in_.bytes(); }

 private:
  static message_id id(const block& one, std::uint64_t epoch) {
    return {one.sender, one.slot, epoch};
  }
  std::span<std::byte> of(aligned_memory& all, std::size_t index) const {
    return all.bytes().subspan(index * block_bytes_, block_bytes_);
  }

  std::vector<block> sent_, received_;
  std::size_t block_bytes_;
  aligned_memory out_, in_;
};

/// Data of reductions. All calls but the last reduce zeros: repeated reductions of one buffer stay
/// zero, and any stray byte shows. The last one reduces numbers that are all checked.
class reduced_data : public collective_data {
 public:
  /// @param result_bytes  size of the result, which begins at `offset` of the reduced data; unused
  ///   if `in_place`
  reduced_data(const collective_params& mine, bool in_place, std::size_t offset,
               std::size_t result_bytes)
      : mine_(mine),
        terms_(mine.type, mine.reduction, mine.ranks),
        first_(offset / mine.element_bytes),
        zeros_(mine.bytes, mine.from),
        full_(mine.bytes, mine.from),
        out_(in_place ? 0 : result_bytes, mine.from),
        now_(&full_),
        in_place_(in_place) {}

  void prepare(std::uint64_t epoch) override {
    terms_.fill(full_.bytes(), mine_.rank, epoch);
    clear(out_.bytes());
  }
  void before(std::uint64_t, std::uint64_t, bool last) override { now_ = last ? &full_ : &zeros_; }
  std::uint64_t after(std::uint64_t, std::uint64_t) override { return 0; }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t) override {
    return terms_.wrong_bytes(in_place_ ? full_.bytes() : out_.bytes(), first_, epoch) +
           wrong_zeros(zeros_.bytes());
  }
  std::span<std::byte> input() override { return now_->bytes(); }
  std::span<std::byte> output() override { return in_place_ ? now_->bytes() : out_.bytes(); }

 private:
  collective_params mine_;
  terms terms_;
  std::size_t first_;
  aligned_memory zeros_, full_, out_;
  aligned_memory* now_;
  bool in_place_;
};

/// One block from each rank, with this slot.
std::vector<block> from_all(int ranks, int slot) {
  std::vector<block> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back({rank, slot});
  return all;
}

std::vector<block> to_all(int rank, int ranks) {
  std::vector<block> all;
  for (int slot = 0; slot < ranks; ++slot) all.push_back({rank, slot});
  return all;
}

}  // namespace

std::unique_ptr<collective_data> make_data(const operation& what, const collective_params& mine) {
  const int rank = mine.rank, ranks = mine.ranks;
  const std::size_t bytes = mine.bytes;
  const std::size_t share = what.blocks ? bytes / static_cast<std::size_t>(ranks) : bytes;
  const bool root = rank == 0;
  const auto moved = [share, from = mine.from](std::vector<block> sent,
                                               std::vector<block> received) {
    return std::make_unique<moved_data>(std::move(sent), std::move(received), share, from);
  };
  const std::vector<block> none, own{{rank, 0}};
  if (what.name == "allreduce") return std::make_unique<reduced_data>(mine, true, 0, bytes);
  if (what.name == "reduce")
    return std::make_unique<reduced_data>(mine, false, 0, root ? bytes : 0);
  if (what.name == "reducescatter") {
    const std::size_t offset = share * static_cast<std::size_t>(rank);
    return std::make_unique<reduced_data>(mine, false, offset, share);
  }
  if (what.name == "broadcast") return root ? moved(own, none) : moved(none, {{0, 0}});
  if (what.name == "allgather") return moved(own, from_all(ranks, 0));
  if (what.name == "gather") return moved(own, root ? from_all(ranks, 0) : none);
  if (what.name == "scatter") return moved(root ? to_all(0, ranks) : none, {{0, rank}});
  if (what.name == "alltoall") return moved(to_all(rank, ranks), from_all(ranks, rank));
  if (what.name == "sendrecv") return moved(own, {{(rank + ranks - 1) % ranks, 0}});
  return moved(none, none);
}

}  // namespace tandem::perf
