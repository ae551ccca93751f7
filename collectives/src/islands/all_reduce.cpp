#include <algorithm>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <utility>

#include "islands/level_reduction.hpp"

namespace tandem {
namespace detail {
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
  leveled_all_reduce(island_parts& over, mutable_view view, const level_reduction& how)
      : with_(over),
        data_(view),
        by_(how),
        count_(view.bytes / how.element_bytes()),
        slices_(has_level_inside()
                    ? std::clamp<std::size_t>(view.bytes / min_slice_bytes, 1, max_slices)
                    : 1),
        combined_(over.all.get_executor()),
        exchanged_(over.all.get_executor()) {}

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
  std::byte* at(std::size_t element) const noexcept {
    return bytes_at(data_, element * by_.element_bytes());
  }
  /// This leader's part of a slice; empty if this rank is not a leader.
  mutable_view part(segment s) const noexcept {
    if (!with_.is_leader()) return data_.part(0, 0);
    const segment own = segment_of(s.count, with_.ranks.leader_count, with_.local_rank());
    const std::size_t each = by_.element_bytes();
    return data_.part((s.first + own.first) * each, own.count * each);
  }

  island_parts& with_;
  const mutable_view data_;
  const level_reduction& by_;
  const std::size_t count_, slices_;
  progress combined_, exchanged_;
};

asio::awaitable<void> leveled_all_reduce::combine() {
  for (std::size_t k = 0; k < slices_; ++k) {
    if (with_.down) {
      const segment s = slice(k);
      with_.down->reduce_segments(at(s.first), bytes_at(part(s)), s.count, by_.element_bytes(),
                                  with_.ranks.leader_count, by_.vendor_type(), by_.inside());
      co_await with_.synchronize_group(*with_.down);
    }
    combined_.step();
  }
}

asio::awaitable<void> leveled_all_reduce::exchange() {
  for (std::size_t k = 0; k < slices_; ++k) {
    co_await combined_.reach(k + 1);
    if (with_.across) {
      const mutable_view own = part(slice(k));
      const reduction across = by_.across();
      co_await tandem::all_reduce(*with_.across, own, by_.type(), across);
    }
    exchanged_.step();
  }
}

asio::awaitable<void> leveled_all_reduce::broadcast_slices() {
  if (!with_.up) co_return;
  for (std::size_t k = 0; k < slices_; ++k) {
    co_await exchanged_.reach(k + 1);
    const segment s = slice(k);
    with_.up->broadcast_segments(at(s.first), s.count, by_.element_bytes(),
                                 with_.ranks.leader_count, by_.vendor_type());
  }
  co_await with_.synchronize_group(*with_.up);
}

asio::awaitable<void> all_reduce_in_levels(island_parts& p, mutable_view data, data_type type,
                                           reduction what) {
  const level_reduction by(p, type, what);
  if (p.islands() == 1) {
    const std::size_t count = data.bytes / by.element_bytes();
    p.down->all_reduce(bytes_at(data), count, by.vendor_type(), by.inside());
    co_await p.synchronize_group(*p.down);
    co_return;
  }
  leveled_all_reduce one(p, data, by);
  std::vector<asio::awaitable<void>> levels;
  levels.push_back(p.level("all_reduce", one.combine()));
  levels.push_back(p.level("all_reduce", one.exchange()));
  levels.push_back(p.level("all_reduce", one.broadcast_slices()));
  co_await when_all(std::move(levels));
}

}  // namespace
}  // namespace detail

/// The choice depends only on what all ranks know, so that all choose the same.
asio::awaitable<void> islands::all_reduce(mutable_view data, data_type type, reduction what) {
  detail::island_parts& p = *parts_;
  if (!detail::level_reduction::is_possible(p, type, what.op)) {
    return tandem::all_reduce(p.all, data, type, what);
  }
  if (const auto wrong = p.check_operands("all_reduce", data, type, what)) {
    return detail::refuse(*wrong);
  }
  if (data.bytes == 0) return detail::empty_call(p.all.internals());
  return p.run_levels("all_reduce", detail::all_reduce_in_levels(p, data, type, what));
}

}  // namespace tandem
