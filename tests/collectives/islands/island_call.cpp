#include "collectives/islands/island_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "collectives/nan_cases.hpp"
#include "collectives/slow.hpp"

namespace tandem::test {
namespace {

using bytes = std::vector<std::byte>;

/// Input elements repeat with this period, which is no multiple of any block.
constexpr std::size_t period = 1009;

double factor_of(int rank) {
  return 1 + rank % 2;
}

element number(data_type type, unsigned value) {
  if (is_integer(type)) return value;
  const auto exact = static_cast<float>(value);
  if (type == data_type::float32) return std::bit_cast<std::uint32_t>(exact);
  if (type == data_type::float64) return std::bit_cast<std::uint64_t>(double{exact});
  return slow_nearest(type, exact);
}

/// Input element of a rank at an index.
element input(const island_call& c, int rank, std::size_t index) {
  auto mixed = static_cast<unsigned>(index % period) * 2654435761U + static_cast<unsigned>(rank);
  mixed = (mixed ^ mixed >> 15) * 2246822519U;
  mixed = mixed >> 20;
  if (c.op == reduce_op::product) return number(c.type, 1 + mixed % 2);
  return number(c.type, mixed % (bytes_of(c.type) == 1 ? 2 : 20));
}

element combined(const island_call& c, int ranks, std::size_t index) {
  element sum = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    element own = input(c, rank, index);
    if (c.op == reduce_op::premultiplied_sum) own = slow_multiply(c.type, own, factor_of(rank));
    sum = rank == 0 ? own : slow_combine(c.type, c.op, sum, own);
  }
  return c.op == reduce_op::average && ranks > 1 ? slow_divide(c.type, sum, ranks) : sum;
}

/// `count` elements starting at index `first`.
template <class At>
bytes elements(data_type type, std::size_t first, std::size_t count, At at) {
  std::vector<element> once;
  for (std::size_t i = 0; i < std::min(count, period); ++i) once.push_back(at(first + i));
  const bytes packed_once = packed(type, once);
  bytes all(count * bytes_of(type));
  for (std::size_t done = 0; done < all.size(); done += packed_once.size()) {
    const std::size_t part = std::min(packed_once.size(), all.size() - done);
    std::memcpy(all.data() + done, packed_once.data(), part);
  }
  return all;
}

/// Appends the block that rank `from` sends to rank `slot`, or to all.
void append_block(bytes& to, int from, int slot, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    to.push_back(
        static_cast<std::byte>(static_cast<std::size_t>(from * 67 + slot * 29) + i * 13 + i / 251));
  }
}

/// Device or host memory with guard bytes before and after it.
class guarded {
 public:
  /// @param on  null for host memory
  guarded(accelerator* on, const bytes& holds)
      : on_(on),
        length_(holds.size()),
        host_bytes_(holds.size() + 2 * guard, std::byte{0xee}),
        memory_(host_bytes_.size(), on ? on->kind() : memory_kind::host, on ? on->device() : 0) {
    std::ranges::copy(holds, host_bytes_.begin() + guard);
    if (!on_) {
      std::memcpy(memory_.data(), host_bytes_.data(), host_bytes_.size());
      return;
    }
    pinned_.emplace(*on_, host_bytes_.size());
    std::memcpy(pinned_->data(), host_bytes_.data(), host_bytes_.size());
    move(memory_.data(), pinned_->data());
  }
  mutable_view view() const { return memory_.view().part(guard, length_); }
  void expect(const bytes& wanted, const std::string& what) {
    const std::byte* got = memory_.data();
    if (on_) {
      move(pinned_->data(), memory_.data());
      got = pinned_->data();
    }
    for (std::size_t i = 0; i < host_bytes_.size(); ++i) {
      const bool is_inside = i >= guard && i < guard + length_;
      const std::byte want = is_inside ? wanted[i - guard] : std::byte{0xee};
      if (got[i] == want) continue;
      throw std::runtime_error(fmt::format("{}: byte {} of {} is {}, not {}", what,
                                           static_cast<std::ptrdiff_t>(i) - 256, length_,
                                           static_cast<int>(got[i]), static_cast<int>(want)));
    }
  }

 private:
  static constexpr std::size_t guard = 256;
  void move(void* to, const void* from) {
    const device_stream stream(*on_);
    on_->copy(to, from, host_bytes_.size(), stream.get());
    on_->finish(stream.get());
  }
  accelerator* const on_;
  const std::size_t length_;
  bytes host_bytes_;
  buffer memory_;
  std::optional<pinned_buffer> pinned_;
};

/// A rank's data before the call and the expected data after it.
struct data_of_rank {
  data_of_rank(const island_call& c, int own, int all) : call(c), rank(own), ranks(all) {
    const auto n = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
    std::optional<nan_cases> cases;
    if (c.has_nans) cases.emplace(c.type, ranks);
    const auto mine = [&](std::size_t i) {
      return cases ? cases->input(rank, i % period) : input(call, rank, i);
    };
    const auto sum = [&](std::size_t i) {
      return cases ? cases->expected(call.op, i % period) : combined(call, ranks, i);
    };
    switch (c.what) {
      case collective::all_reduce:
      case collective::reduce:
        from = elements(c.type, 0, c.count, mine);
        into = elements(c.type, 0, c.count, sum);
        break;
      case collective::reduce_scatter:
        from = elements(c.type, 0, c.count * n, mine);
        into = elements(c.type, c.count * r, c.count, sum);
        break;
      case collective::broadcast:
        append_block(from, rank, 0, c.count);
        append_block(into, c.root, 0, c.count);
        break;
      case collective::all_gather:
        append_block(from, rank, 0, c.count);
        for (int q = 0; q < ranks; ++q) append_block(into, q, 0, c.count);
        break;
      default:
        for (int q = 0; q < ranks; ++q) append_block(from, rank, q, c.count);
        for (int q = 0; q < ranks; ++q) append_block(into, q, rank, c.count);
    }
    block = (call.what == collective::reduce_scatter ? into : from).size();
    offset = block * r;
  }

  const island_call call;
  const int rank, ranks;
  bytes from, into;
  std::size_t block = 0, offset = 0;  ///< own values of the rank
};

asio::awaitable<void> check_in_place(communicator& in, accelerator* device, const data_of_rank& d,
                                     reduction by) {
  const island_call& c = d.call;
  bytes before = d.from, after = d.into;
  if (c.what == collective::all_gather) {
    before.assign(d.into.size(), std::byte{0x5a});
    std::ranges::copy(d.from, before.begin() + static_cast<std::ptrdiff_t>(d.offset));
  }
  guarded data(device, before);
  const mutable_view all = data.view();
  switch (c.what) {
    case collective::all_reduce:
      co_await all_reduce(in, all, c.type, by);
      break;
    case collective::broadcast:
      co_await broadcast(in, all, c.root);
      break;
    case collective::reduce:
      co_await reduce(in, all, all, c.type, by, c.root);
      if (d.rank != c.root) after = before;
      break;
    case collective::reduce_scatter: {
      const mutable_view mine = all.part(d.offset, d.block);
      co_await reduce_scatter(in, all, mine, c.type, by);
      after = before;
      std::ranges::copy(d.into, after.begin() + static_cast<std::ptrdiff_t>(d.offset));
      break;
    }
    default: {
      const mutable_view mine = all.part(d.offset, d.block);
      co_await all_gather(in, mine, all);
    }
  }
  data.expect(after, "in place");
}

asio::awaitable<void> check_out_of_place(communicator& in, accelerator* device,
                                         const data_of_rank& d, reduction by) {
  const island_call& c = d.call;
  const bool is_ignored = c.what == collective::reduce && d.rank != c.root;
  const bytes old(d.into.size(), std::byte{0x5a});
  guarded from(device, d.from), into(device, old);
  const const_view given = from.view();
  const mutable_view result = is_ignored ? mutable_view() : into.view();
  switch (c.what) {
    case collective::all_reduce:
      co_await all_reduce(in, given, result, c.type, by);
      break;
    case collective::reduce:
      co_await reduce(in, given, result, c.type, by, c.root);
      break;
    case collective::reduce_scatter:
      co_await reduce_scatter(in, given, result, c.type, by);
      break;
    case collective::all_gather:
      co_await all_gather(in, given, result);
      break;
    default:
      co_await all_to_all(in, given, result);
  }
  from.expect(d.from, "what was only to be read");
  into.expect(is_ignored ? old : d.into, "the result");
}

}  // namespace

std::string text(const island_call& c) {
  return fmt::format("{} of {} {}, {}, root {}{}{}", name(c.what), c.count, name(c.type),
                     name(c.op), c.root, c.in_place ? ", in place" : "",
                     c.has_nans ? ", with NaNs" : "");
}

asio::awaitable<void> check(communicator& in, accelerator* device, island_call c) {
  const data_of_rank d(c, in.rank(), in.size());
  const reduction by(c.op, factor_of(in.rank()));
  if (c.in_place || c.what == collective::broadcast) {
    co_await check_in_place(in, device, d, by);
  } else {
    co_await check_out_of_place(in, device, d, by);
  }
}

}  // namespace tandem::test
