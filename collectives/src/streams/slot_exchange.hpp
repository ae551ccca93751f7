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

/// into = own op arrived, by all threads of the block. The order of two operands changes no bits.
/// @param arrived  in a slot, which is aligned
template <class Loops, class Op, std::size_t ElementBytes>
inline void combine_piece(char* into, const char* own, const char* arrived, std::uint64_t bytes) {
  const std::uint64_t alignment =
      reinterpret_cast<std::uint64_t>(into) | reinterpret_cast<std::uint64_t>(own);
  const bool is_aligned = alignment % copy_unit_bytes == 0;
  const auto units = static_cast<unsigned>(is_aligned ? bytes / copy_unit_bytes : 0);
  const auto* const arrived_units = reinterpret_cast<const copy_unit*>(arrived);
  const auto* const own_units = reinterpret_cast<const exchanged_unit*>(own);
  auto* const into_units = reinterpret_cast<exchanged_unit*>(into);
  constexpr unsigned in_unit = copy_unit_bytes / ElementBytes, at_once = 4;
  const auto combine = [](const exchanged_unit& x, const copy_unit& y) {
    const auto other = __builtin_bit_cast(exchanged_unit, y);
    exchanged_unit result;
    Loops::template combine<Op>(&result, &x, &other, in_unit);
    return result;
  };
  unsigned i = threadIdx.x;
  for (; i + (at_once - 1) * blockDim.x < units; i += at_once * blockDim.x) {
    exchanged_unit x[at_once];
    copy_unit y[at_once];
    for (unsigned k = 0; k < at_once; ++k) x[k] = own_units[i + k * blockDim.x];
    for (unsigned k = 0; k < at_once; ++k) y[k] = load_unit(arrived_units + i + k * blockDim.x);
    for (unsigned k = 0; k < at_once; ++k) into_units[i + k * blockDim.x] = combine(x[k], y[k]);
  }
  for (; i < units; i += blockDim.x) {
    into_units[i] = combine(own_units[i], load_unit(arrived_units + i));
  }
  const auto count = static_cast<unsigned>(bytes / ElementBytes);
  for (unsigned k = units * in_unit + threadIdx.x; k < count; k += blockDim.x) {
    exchanged_unit other;
    for (unsigned b = 0; b < ElementBytes; ++b) {
      other.bytes[b] = static_cast<byte>(load_unit(arrived + k * ElementBytes + b));
    }
    Loops::template combine<Op>(into + k * ElementBytes, own + k * ElementBytes, &other, 1);
  }
}

/// The part of one thread block. Every piece is sent before it is combined, so that the result may
/// be where the data are. @param is_over  shared by its threads
template <class Loops, class Op, std::size_t ElementBytes>
inline void exchange_and_combine(const slot_exchange& what, unsigned block, bool& is_over) {
  const block_part part = part_of(what.head.bytes, block);
  if (part.bytes == 0) return;
  if (threadIdx.x == 0) is_over = false;
  slot_copier out(what.send, block), in(what.receive, block);
  out.begin(is_over);
  in.begin(is_over);
  std::uint64_t sent = 0;
  for (std::uint64_t at = 0; at < part.bytes; at += slot_bytes) {
    constexpr std::uint64_t ahead = std::uint64_t{slot_exchange::pieces_ahead} * slot_bytes;
    for (; sent < part.bytes && sent < at + ahead; sent += slot_bytes) {
      out.send(what.sent + part.first + sent, bytes_of_piece(part, sent), what.head, is_over);
    }
    const std::uint64_t first = part.first + at, bytes = bytes_of_piece(part, at);
    in.receive(what.head, is_over, [&what, first, bytes](const char* arrived) {
      combine_piece<Loops, Op, ElementBytes>(what.into + first, what.combined + first, arrived,
                                             bytes);
    });
  }
  slot_copier::end(out, in);
}

}  // namespace
}  // namespace tandem::detail

/// With each combining kernel of device_loops.hpp; not for GPUs without acquire and release.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#define TANDEM_EXCHANGES(op, name, type, loops)
#else
#define TANDEM_EXCHANGES(op, name, type, loops)                               \
  TANDEM_SLOT_ENTRY void tandem_exchange_##op##_##name(                       \
      TANDEM_SLOT_ARGUMENT tandem::detail::slot_exchange what) {              \
    using namespace tandem::detail;                                           \
    TANDEM_SLOT_SHARED bool is_over;                                          \
    exchange_and_combine<loops, op, sizeof(type)>(what, blockIdx.x, is_over); \
  }
#endif
