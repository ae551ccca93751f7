#include "algorithms/board.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "algorithms/fold.hpp"

namespace tandem::detail {
namespace {

using sources = std::array<const void*, static_cast<std::size_t>(board::most_ranks)>;

error mismatch(int peer, std::string detail) {
  return error(
      errc::call_mismatch,
      {.peer = peer,
       .rail = {},
       .phase = {},
       .detail = std::move(detail),
       .advice = "make the same call with the same length, type and settings on every rank"});
}

/// What a rank has brought, if it belongs to this call and is as long as it should be.
const std::byte* taken(const call& c, int rank, std::size_t bytes) {
  const board::brought there = c.at_board.of(rank);
  const int peer = c.in->member(rank);
  if (there.note != c.note()) throw mismatch(peer, c.in->difference(c.number(), there.note, peer));
  if (there.bytes == bytes) return there.data;
  throw mismatch(peer, fmt::format("rank {} brought {} bytes where {} were expected", peer,
                                   there.bytes, bytes));
}

/// Neighbours, then pairs, then fours. Needs scratch of as many blocks, but for two.
void combine_pairs(const call& c, sources& from, int count, void* result, std::size_t bytes,
                   const reducer& by) {
  for (int d = 1; d < count; d *= 2) {
    for (int i = 0; i + d < count; i += 2 * d) {
      const auto lower = static_cast<std::size_t>(i), higher = static_cast<std::size_t>(i + d);
      void* const into = 2 * d >= count ? result : c.scratch(lower * bytes, bytes).data;
      by.combine(into, from[lower], from[higher], bytes);
      from[lower] = into;
    }
  }
}

/// Nothing of a view without bytes, which may have no address.
void put(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

/// Writes what this rank brings, once. False: somebody still reads what was there before.
template <class Write>
bool has_written(call& c, board_call& given, std::size_t bytes, const Write& write) {
  if (given.has_written) return true;
  if (!c.at_board.may_write()) return false;
  write(c.at_board.place());
  c.at_board.publish(bytes);
  return given.has_written = true;
}

bool has_copied(call& c, board_call& given, const const_view& what) {
  return has_written(c, given, what.bytes, [&](std::byte* to) { put(to, what.data, what.bytes); });
}

bool has_prepared(call& c, board_call& given) {
  const const_view& what = given.from;
  return has_written(c, given, what.bytes,
                     [&](std::byte* to) { given.by->prepare(to, what.data, what.bytes); });
}

bool have_all(call& c) {
  return c.at_board.have(0, c.in->size());
}

}  // namespace

bool board_barrier(call& c, board_call& given) {
  if (!has_copied(c, given, const_view()) || !have_all(c)) return false;
  for (int r = 0; r < c.in->size(); ++r) {
    if (r != c.in->rank()) taken(c, r, 0);
  }
  return true;
}

bool board_broadcast(call& c, board_call& given) {
  const mutable_view& data = given.into;
  const int root = given.root;
  if (c.in->rank() == root) return has_copied(c, given, data);
  if (!c.at_board.have(root, root + 1)) return false;
  put(data.data, taken(c, root, data.bytes), data.bytes);
  return true;
}

bool board_reduce(call& c, board_call& given) {
  const int n = c.in->size(), root = given.root;
  const std::size_t bytes = given.from.bytes;
  if (!has_prepared(c, given)) return false;
  if (c.in->rank() != root) return true;
  if (!have_all(c)) return false;
  sources from{};
  for (int v = 0; v < n; ++v) {
    const int r = around(root, v, n);
    from[static_cast<std::size_t>(v)] = r == root ? c.at_board.place() : taken(c, r, bytes);
  }
  combine_pairs(c, from, n, given.into.data, bytes, *given.by);
  given.by->finish(given.into);
  return true;
}

bool board_all_reduce(call& c, board_call& given) {
  const int me = c.in->rank();
  const std::size_t bytes = given.from.bytes;
  if (!has_prepared(c, given) || !have_all(c)) return false;
  const auto of = [&](int r) { return r == me ? c.at_board.place() : taken(c, r, bytes); };
  const fold as(c.in->size(), me);
  sources from{};
  for (int i = 0; i < as.size; ++i) {
    const int lower = as.rank_of(i);
    const void*& item = from[static_cast<std::size_t>(i)];
    item = of(lower);
    if (i >= as.folded) continue;
    void* const into = c.scratch(static_cast<std::size_t>(i) * bytes, bytes).data;
    given.by->combine(into, item, of(lower + 1), bytes);
    item = into;
  }
  combine_pairs(c, from, as.size, given.into.data, bytes, *given.by);
  given.by->finish(given.into);
  return true;
}

bool board_reduce_scatter(call& c, board_call& given) {
  if (!has_prepared(c, given) || !have_all(c)) return false;
  const int n = c.in->size(), me = c.in->rank();
  const std::size_t bytes = given.from.bytes, offset = given.cut.offset(me);
  const mutable_view& mine = given.into;
  const void* so_far = taken(c, around(me, 1, n), bytes) + offset;
  for (int k = 2; k <= n; ++k) {
    const int r = around(me, k, n);
    const std::byte* const next = r == me ? c.at_board.place() : taken(c, r, bytes);
    given.by->combine(mine.data, so_far, next + offset, mine.bytes);
    so_far = mine.data;
  }
  given.by->finish(mine);
  return true;
}

bool board_all_gather(call& c, board_call& given) {
  const const_view& mine = given.from;
  if (!has_copied(c, given, mine)) return false;
  if (!have_all(c)) return false;
  for (int r = 0; r < c.in->size(); ++r) {
    const mutable_view to = given.cut.in(given.into, r);
    if (r != c.in->rank()) {
      put(to.data, taken(c, r, to.bytes), to.bytes);
    } else if (to.data != mine.data) {
      put(to.data, mine.data, to.bytes);
    }
  }
  return true;
}

bool board_all_to_all(call& c, board_call& given) {
  if (!has_copied(c, given, given.from) || !have_all(c)) return false;
  const int me = c.in->rank();
  for (int r = 0; r < c.in->size(); ++r) {
    const std::byte* const theirs = r == me ? c.at_board.place() : taken(c, r, given.from.bytes);
    const mutable_view to = given.cut.in(given.into, r);
    put(to.data, theirs + given.cut.offset(me), to.bytes);
  }
  return true;
}

asio::awaitable<void> carry_out(lease place, board_call given) {
  call& c = *place;
  c.open(*c.in, call::kind::collective);
  c.go_to_board();
  std::exception_ptr failure;
  try {
    while (!given.how(c, given)) co_await c.at_board.wait();
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) std::rethrow_exception(end_in_failure(c, failure));
}

}  // namespace tandem::detail
