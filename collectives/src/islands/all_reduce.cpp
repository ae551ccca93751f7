#include <algorithm>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <utility>

#include "islands/level_reduction.hpp"

namespace tandem::detail {
namespace {

/// Slices are not shorter than this, because the start of one would take longer than its transfer.
constexpr std::size_t min_slice_bytes = std::size_t{8} << 20;
constexpr std::size_t max_slices = 8;

/// The slices that a level has completed; the next level waits for them.
struct progress {
  explicit progress(const asio::any_io_executor& executor) : moved(executor) {}

  void step() {
    ++slices;
    moved.notify_all();
  }
  asio::awaitable<void> reach(std::size_t count) {
    while (slices < count) co_await moved.wait();
  }

  std::size_t slices = 0;
  async_condition moved;
};

/// One all_reduce through the levels.
class leveled_all_reduce {
 public:
  leveled_all_reduce(island_parts& over, const_view data, mutable_view result,
                     const level_reduction& how)
      : with_(over),
        data_(data),
        result_(result),
        by_(how),
        count_(data.bytes / how.element_bytes()),
        slices_(has_level_inside()
                    ? std::clamp<std::size_t>(data.bytes / min_slice_bytes, 1, max_slices)
                    : 1),
        combined_(over.all.executor()),
        exchanged_(over.all.executor()) {}

  /// Reduces each slice to the leaders of the island.
  asio::awaitable<void> combine();
  /// Combines this leader's part of each slice with the same leader of all other islands.
  asio::awaitable<void> exchange();
  asio::awaitable<void> broadcast_slices();

 private:
  /// Whether any island has several ranks. The same on all ranks, as the number of slices is.
  bool has_level_inside() const noexcept { return with_.all.size() > with_.islands(); }
  segment slice(std::size_t k) const noexcept {
    return segment_of(count_, static_cast<int>(slices_), static_cast<int>(k));
  }
  std::size_t offset(segment s) const noexcept { return s.first * by_.element_bytes(); }
  /// This leader's part of a slice in one of the views; empty if this rank is not a leader.
  template <class View>
  View part(const View& of, segment s) const noexcept {
    if (!with_.is_leader()) return of.part(0, 0);
    const segment own = segment_of(s.count, with_.ranks.leader_count, with_.local_rank());
    const std::size_t each = by_.element_bytes();
    return of.part((s.first + own.first) * each, own.count * each);
  }

  island_parts& with_;
  const const_view data_;
  const mutable_view result_;
  const level_reduction& by_;
  const std::size_t count_, slices_;
  progress combined_, exchanged_;
};

asio::awaitable<void> leveled_all_reduce::combine() {
  for (std::size_t k = 0; k < slices_; ++k) {
    if (with_.down) {
      const segment s = slice(k);
      with_.down->reduce_segments(bytes_at(data_, offset(s)), bytes_at(part(result_, s)), s.count,
                                  by_.element_bytes(), with_.ranks.leader_count, by_.vendor_type(),
                                  by_.inside());
      co_await with_.synchronize_group(*with_.down);
    }
    combined_.step();
  }
}

asio::awaitable<void> leveled_all_reduce::exchange() {
  for (std::size_t k = 0; k < slices_; ++k) {
    co_await combined_.reach(k + 1);
    if (with_.across) {
      const mutable_view into = part(result_, slice(k));
      const_view sums = into;
      if (!with_.down) sums = part(data_, slice(k));
      const reduction across = by_.across();
      co_await tandem::all_reduce(*with_.across, sums, into, by_.type(), across);
    }
    exchanged_.step();
  }
}

asio::awaitable<void> leveled_all_reduce::broadcast_slices() {
  if (!with_.up) co_return;
  for (std::size_t k = 0; k < slices_; ++k) {
    co_await exchanged_.reach(k + 1);
    const segment s = slice(k);
    with_.up->broadcast_segments(bytes_at(result_, offset(s)), s.count, by_.element_bytes(),
                                 with_.ranks.leader_count, by_.vendor_type());
  }
  co_await with_.synchronize_group(*with_.up);
}

asio::awaitable<void> all_reduce_in_levels(island_parts& p, const_view data, mutable_view result,
                                           data_type type, reduction what) {
  const level_reduction by(p, type, what);
  if (p.islands() == 1) {
    const std::size_t count = data.bytes / by.element_bytes();
    p.down->all_reduce(bytes_at(data), bytes_at(result), count, by.vendor_type(), by.inside());
    co_await p.synchronize_group(*p.down);
    co_return;
  }
  leveled_all_reduce one(p, data, result, by);
  std::vector<asio::awaitable<void>> levels;
  levels.push_back(p.level("all_reduce", one.combine()));
  levels.push_back(p.level("all_reduce", one.exchange()));
  levels.push_back(p.level("all_reduce", one.broadcast_slices()));
  co_await when_all(std::move(levels));
}

}  // namespace

asio::awaitable<void> island_parts::all_reduce(const_view data, mutable_view result, data_type type,
                                               reduction what) {
  return run_levels("all_reduce", all_reduce_in_levels(*this, data, result, type, what));
}

}  // namespace tandem::detail
