#include <cmath>
#include <cstring>
#include <tandem/memory.hpp>

#include "collectives/slow.hpp"
#include "doubles/nccl/world.hpp"
#include "reduce/reducer.hpp"

namespace tandem::test::nccl {
namespace {

using bytes = std::vector<std::byte>;

/// Null: misuse, which is recorded.
std::byte* memory_of(cuda::world& in, const side& whose, cu::address at, std::size_t length) {
  bool pageable = false;
  std::string why;
  std::byte* const found = in.reach(at, length, whose.by->device, pageable, why);
  if (found != nullptr && !pageable) return found;
  in.misuse(invalid_argument, "NCCL, of " + std::to_string(length) + " bytes: " + why);
  return nullptr;
}

bytes read(cuda::world& in, const side& whose, std::size_t offset, std::size_t length) {
  bytes found(length);
  const std::byte* const at = memory_of(in, whose, whose.from + offset, length);
  if (at != nullptr) std::memcpy(found.data(), at, length);
  return found;
}

void write(cuda::world& in, const side& whose, const bytes& what) {
  std::byte* const at = memory_of(in, whose, whose.into, what.size());
  if (at != nullptr) std::memcpy(at, what.data(), what.size());
}

reduction reduction_of(int op, double factor) {
  switch (op) {
    case nc::sum:
      return reduce_op::sum;
    case nc::product:
      return reduce_op::product;
    case nc::maximum:
      return reduce_op::maximum;
    case nc::minimum:
      return reduce_op::minimum;
    case nc::average:
      return reduce_op::average;
    default:
      return premultiplied_sum(factor);
  }
}

/// NCCL's results of floating point with fmin, fmax and similar functions: of a number and NaN the
/// number. Of two zeros the one that CUDA's instructions return, with -0 the smaller one.
void combine_extremes(data_type type, bool greatest, bytes& result, const bytes& contribution) {
  std::vector<element> all = unpacked(type, result.data(), result.size() / bytes_of(type));
  const std::vector<element> others = unpacked(type, contribution.data(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double a = slow_value(type, all[i]), b = slow_value(type, others[i]);
    const bool is_less = b < a || (a == b && std::signbit(b));
    if (std::isnan(a) || (!std::isnan(b) && is_less != greatest)) all[i] = others[i];
  }
  result = packed(type, all);
}

/// Combines all ranks' contributions from there on, the first rank first.
bytes combined(cuda::world& in, const shared_call& what, std::size_t offset, std::size_t length) {
  const int ranks = static_cast<int>(what.sides.size());
  const data_type type = *type_of(what.parameters.type);
  const bool is_extreme = what.parameters.op == nc::maximum || what.parameters.op == nc::minimum;
  bytes result;
  for (const auto& each : what.sides) {
    const detail::reducer by(type, reduction_of(what.parameters.op, each->factor), ranks);
    bytes contribution = read(in, *each, offset, length);
    if (by.prepares()) by.prepare(mutable_view(contribution));
    if (result.empty()) {
      result = std::move(contribution);
    } else if (is_extreme && !is_integer(type)) {
      combine_extremes(type, what.parameters.op == nc::maximum, result, contribution);
    } else {
      by.combine_after(result.data(), contribution.data(), length);
    }
  }
  const detail::reducer last(type, reduction_of(what.parameters.op, 1), ranks);
  last.finish(mutable_view(result));
  return result;
}

}  // namespace

std::optional<data_type> type_of(int vendor) noexcept {
  constexpr data_type types[] = {
      data_type::int8,    data_type::uint8,    data_type::int32,       data_type::uint32,
      data_type::int64,   data_type::uint64,   data_type::float16,     data_type::float32,
      data_type::float64, data_type::bfloat16, data_type::float8_e4m3, data_type::float8_e5m2};
  if (vendor < 0 || vendor >= static_cast<int>(std::size(types))) return std::nullopt;
  return types[vendor];
}

double value_of(data_type type, const void* element) {
  const test::element bits = unpacked(type, element, 1).front();
  if (!is_integer(type)) return slow_value(type, bits);
  return static_cast<double>(static_cast<std::int64_t>(bits));
}

/// All inputs are read before any output is written.
void execute(cuda::world& in, const shared_call& what) {
  const std::size_t length = what.parameters.count * bytes_of(*type_of(what.parameters.type));
  if (length == 0) return;
  const auto at_root = static_cast<std::size_t>(what.parameters.root);
  const auto to_all = [&](const bytes& result) {
    for (const auto& each : what.sides) write(in, *each, result);
  };
  switch (what.parameters.what) {
    case kind::message:
      return write(in, *what.sides[1], read(in, *what.sides[0], 0, length));
    case kind::broadcast:
      return to_all(read(in, *what.sides[at_root], 0, length));
    case kind::reduce:
      return write(in, *what.sides[at_root], combined(in, what, 0, length));
    case kind::all_reduce:
      return to_all(combined(in, what, 0, length));
    case kind::all_gather: {
      bytes all;
      for (const auto& each : what.sides) {
        const bytes block = read(in, *each, 0, length);
        all.insert(all.end(), block.begin(), block.end());
      }
      return to_all(all);
    }
    case kind::reduce_scatter: {
      std::vector<bytes> blocks;
      for (std::size_t r = 0; r < what.sides.size(); ++r) {
        blocks.push_back(combined(in, what, r * length, length));
      }
      for (std::size_t r = 0; r < blocks.size(); ++r) write(in, *what.sides[r], blocks[r]);
    }
  }
}

}  // namespace tandem::test::nccl
