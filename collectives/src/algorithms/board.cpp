#include "algorithms/board.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "partition/fold.hpp"

namespace tandem::detail {
namespace {

error mismatch(int peer, std::string detail) {
  return error(errc::call_mismatch, {.peer = peer,
                                     .rail = {},
                                     .phase = {},
                                     .detail = std::move(detail),
                                     .advice = same_call_advice});
}

/// The data that another rank has written. Throws if it belongs to another call or has another
/// length.
const std::byte* taken(const call& c, int rank, std::size_t bytes) {
  const board::contribution there = c.board_io.of(rank);
  const int peer = c.in->member(rank);
  if (there.signature != c.signature())
    throw mismatch(peer, c.in->difference(c.number(), there.signature, peer));
  if (there.bytes == bytes) return there.data;
  throw mismatch(
      peer, fmt::format("rank {} wrote {} bytes where {} were expected", peer, there.bytes, bytes));
}

/// The same for any rank, also this one.
const std::byte* of_rank(const call& c, int rank, std::size_t bytes) {
  return rank == c.in->rank() ? c.board_io.slot() : taken(c, rank, bytes);
}

/// Combines contributions pairwise: the result of a pair replaces its first operand, in scratch
/// memory, until the last pair writes the result.
class combination {
 public:
  combination(const call& c, const board_call& given) noexcept : call_(c), given_(given) {}

  void set_operand(int number, const void* what) noexcept {
    operands_[static_cast<std::size_t>(number)] = what;
  }
  void operator()(int lower, int higher, bool is_last) {
    const std::size_t bytes = given_.from.bytes;
    const auto first = static_cast<std::size_t>(lower);
    void* const into = is_last ? given_.into.data : call_.scratch(first * bytes, bytes).data;
    given_.by->combine(into, operands_[first], operands_[static_cast<std::size_t>(higher)], bytes);
    operands_[first] = into;
  }

 private:
  const call& call_;
  const board_call& given_;
  std::array<const void*, static_cast<std::size_t>(board::max_ranks)> operands_{};
};

/// Copies; does nothing for an empty view, whose address may be null.
void put(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

/// Writes and publishes this rank's data once. False: another rank still reads the slot's previous
/// contents.
template <class Write>
bool has_written(call& c, board_call& given, std::size_t bytes, const Write& write) {
  if (given.has_written) return true;
  if (!c.board_io.may_write()) return false;
  write(c.board_io.slot());
  c.board_io.publish(bytes);
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
  return c.board_io.have(0, c.in->size());
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
  if (!c.board_io.have(root, root + 1)) return false;
  put(data.data, taken(c, root, data.bytes), data.bytes);
  return true;
}

bool board_reduce(call& c, board_call& given) {
  const int n = c.in->size(), root = given.root;
  if (!has_prepared(c, given)) return false;
  if (c.in->rank() != root) return true;
  if (!have_all(c)) return false;
  combination from(c, given);
  for (int v = 0; v < n; ++v) from.set_operand(v, of_rank(c, around(root, v, n), given.from.bytes));
  join_pairs(n, from);
  given.by->finish(given.into);
  return true;
}

bool board_all_reduce(call& c, board_call& given) {
  const int n = c.in->size();
  if (!has_prepared(c, given) || !have_all(c)) return false;
  combination from(c, given);
  for (int r = 0; r < n; ++r) from.set_operand(r, of_rank(c, r, given.from.bytes));
  join_folded(fold(n, c.in->rank()), from);
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
    const std::byte* const next = of_rank(c, around(me, k, n), bytes);
    given.by->combine(mine.data, so_far, next + offset, mine.bytes);
    so_far = mine.data;
  }
  given.by->finish(mine);
  return true;
}

bool board_all_gather(call& c, board_call& given) {
  const const_view& mine = given.from;
  if (!has_copied(c, given, mine) || !have_all(c)) return false;
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
    const std::byte* const theirs = of_rank(c, r, given.from.bytes);
    const mutable_view to = given.cut.in(given.into, r);
    put(to.data, theirs + given.cut.offset(me), to.bytes);
  }
  return true;
}

asio::awaitable<void> run_call(lease slot, board_call given) {
  call& c = *slot;
  if (c.in->must_queue()) co_await queue_call(c);
  c.open(*c.in, call::kind::collective);
  c.open_board();
  std::exception_ptr failure;
  try {
    while (!given.run_step(c, given)) co_await c.board_io.wait();
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) std::rethrow_exception(fail_call(c, failure));
}

}  // namespace tandem::detail
