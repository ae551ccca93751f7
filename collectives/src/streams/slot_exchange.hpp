// The kernels of two ranks that combine what arrives with data of their own, which they send: a
// part of the kernel source of a type, behind loops.hpp and slot_copier.hpp and before
// device_loops.hpp.
#pragma once

namespace tandem::detail {
namespace {

struct alignas(copy_unit_bytes) exchanged_unit {
  byte bytes[copy_unit_bytes];
};
static_assert(sizeof(exchanged_unit) == sizeof(copy_unit));

/// into = own op arrived, by these threads. The order of two operands changes no bits.
/// @param arrived  in a slot, which is aligned
template <class Loops, class Op, std::size_t ElementBytes>
inline void combine_piece(char* into, const char* own, const char* arrived, std::uint64_t bytes,
                          const thread_group& by) {
  const std::uint64_t alignment =
      reinterpret_cast<std::uint64_t>(into) | reinterpret_cast<std::uint64_t>(own);
  const bool is_aligned = alignment % copy_unit_bytes == 0;
  const auto units = static_cast<unsigned>(is_aligned ? bytes / copy_unit_bytes : 0);
  const auto* const arrived_units = reinterpret_cast<const copy_unit*>(arrived);
  const auto* const own_units = reinterpret_cast<const copy_unit*>(own);
  auto* const into_units = reinterpret_cast<copy_unit*>(into);
  constexpr unsigned in_unit = copy_unit_bytes / ElementBytes;
  const auto combine = [](const copy_unit& x, const copy_unit& y) {
    const auto mine = __builtin_bit_cast(exchanged_unit, x);
    const auto other = __builtin_bit_cast(exchanged_unit, y);
    exchanged_unit result;
    Loops::template combine<Op>(&result, &mine, &other, in_unit);
    return __builtin_bit_cast(copy_unit, result);
  };
  const unsigned threads = by.threads;
  for (unsigned i = by.thread; i < units; i += units_at_once * threads) {
    copy_unit x[units_at_once], y[units_at_once];
    const auto each = [=](auto use) {
      for (unsigned k = 0; k < units_at_once; ++k) {
        const unsigned unit = i + k * threads;
        if (unit < units) use(k, unit);
      }
    };
    each([&](unsigned k, unsigned unit) { x[k] = load_once(own_units + unit); });
    each([&](unsigned k, unsigned unit) { y[k] = load_unit(arrived_units + unit); });
    each([&](unsigned k, unsigned unit) { store_once(into_units + unit, combine(x[k], y[k])); });
  }
  const auto count = static_cast<unsigned>(bytes / ElementBytes);
  for (unsigned k = units * in_unit + by.thread; k < count; k += threads) {
    exchanged_unit other;
    for (unsigned b = 0; b < ElementBytes; ++b) {
      other.bytes[b] = static_cast<byte>(load_unit(arrived + k * ElementBytes + b));
    }
    Loops::template combine<Op>(into + k * ElementBytes, own + k * ElementBytes, &other, 1);
  }
}

/// What a group of threads does, which is half a block or all of it.
struct exchange_role {
  thread_group by;
  unsigned block;  ///< of a direction
  bool is_sender;
};
/// Half of each block sends, or every other block where halves have no barrier of their own.
inline exchange_role role_in_exchange() {
#if defined(TANDEM_PAIRED_EXCHANGES)
  const unsigned half = blockDim.x / 2, group = threadIdx.x < half ? 0 : 1;
  return {{threadIdx.x - group * half, half, group + 1}, blockIdx.x, group == 0};
#else
  return {whole_block(), blockIdx.x / 2, blockIdx.x % 2 == 0};
#endif
}

/// Each step of a group's part: `step(first, at, bytes)`, which begins there in the message and in
/// the part.
template <class Step>
inline void in_steps(const slot_exchange& what, const block_part& part, Step step) {
  const std::uint64_t step_bytes = step_bytes_of(what.head.bytes);
  for (std::uint64_t at = 0; at < part.bytes; at += step_bytes) {
    step(part.first + at, at, bytes_of_step(part, at, step_bytes));
  }
}

/// The part of one group of threads: some send and some combine, so that the link is busy while
/// what has arrived is combined. What is combined has been sent, so that the result may be where
/// the data are.
/// @param is_over  shared by its threads
template <class Loops, class Op, std::size_t ElementBytes>
inline void exchange_and_combine(const slot_exchange& what, const exchange_role& role,
                                 bool& is_over) {
  const block_part part = part_of(what.head.bytes, role.block);
  if (part.bytes == 0) return;
  if (is_control(role.by)) is_over = false;
  if (role.is_sender) {
    if (what.sent == nullptr) return;
    slot_copier by(what.send, role.block, role.by);
    by.begin(is_over);
    in_steps(what, part, [&](std::uint64_t first, std::uint64_t, std::uint64_t bytes) {
      by.send(what.sent + first, bytes, what.head, is_over);
    });
    return by.end(is_over);
  }
  slot_copier by(what.receive, role.block, role.by);
  const thread_group copiers = copiers_of(role.by);
  by.begin(is_over);
  in_steps(what, part, [&](std::uint64_t first, std::uint64_t at, std::uint64_t bytes) {
    if (what.sent != nullptr) by.await_sent(what.send, at + bytes, is_over);
    const auto combine = [&](const char* arrived, std::uint64_t offset, std::uint64_t length) {
      combine_piece<Loops, Op, ElementBytes>(
          what.into + first + offset, what.combined + first + offset, arrived, length, copiers);
    };
    by.receive(bytes, what.head, is_over, combine);
  });
  by.end(is_over);
}

}  // namespace
}  // namespace tandem::detail

/// With each combining kernel of device_loops.hpp; not for GPUs without acquire and release.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#define TANDEM_EXCHANGES(op, name, type, loops)
#else
#define TANDEM_EXCHANGES(op, name, type, loops)                                                  \
  TANDEM_EXCHANGE_ENTRY void tandem_exchange_##op##_##name(                                      \
      TANDEM_SLOT_ARGUMENT tandem::detail::slot_exchange what) {                                 \
    using namespace tandem::detail;                                                              \
    TANDEM_SLOT_SHARED bool are_over[2];                                                         \
    const exchange_role role = role_in_exchange();                                               \
    exchange_and_combine<loops, op, sizeof(type)>(what, role, are_over[role.is_sender ? 0 : 1]); \
  }
#endif
