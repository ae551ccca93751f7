// The last part of the kernel source that is compiled at run time, after device_words.hpp,
// numbers.hpp and loops.hpp. The kernels run the loops of loops.hpp on sixteen bytes at a time, so
// a device computes the same bits as the portable table.
#pragma once

namespace tandem::detail {
namespace {

constexpr std::size_t piece_bytes = 16;
struct alignas(piece_bytes) piece {
  byte bytes[piece_bytes];
};

inline std::size_t number_of(const void* address) {
  return reinterpret_cast<std::size_t>(address);
}

/// This thread's elements, strided so that neighbouring threads access neighbouring memory.
struct share {
  std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::size_t step = std::size_t{gridDim.x} * blockDim.x;
};

template <class Loops, class Op, std::size_t ElementBytes>
inline void combine_share(void* into, const void* a, const void* b, std::size_t count) {
  constexpr std::size_t in_piece = piece_bytes / ElementBytes;
  const bool aligned = (number_of(into) | number_of(a) | number_of(b)) % piece_bytes == 0;
  const std::size_t pieces = aligned ? count / in_piece : 0;
  const share mine;
  for (std::size_t i = mine.first; i < pieces; i += mine.step) {
    const piece x = static_cast<const piece*>(a)[i];
    const piece y = static_cast<const piece*>(b)[i];
    piece result;
    Loops::template combine<Op>(&result, &x, &y, in_piece);
    static_cast<piece*>(into)[i] = result;
  }
  for (std::size_t i = pieces * in_piece + mine.first; i < count; i += mine.step) {
    const std::size_t at = i * ElementBytes;
    Loops::template combine<Op>(static_cast<byte*>(into) + at, static_cast<const byte*>(a) + at,
                                static_cast<const byte*>(b) + at, 1);
  }
}

struct multiplying {
  template <class Loops>
  static void run(void* into, const void* from, std::size_t count, double by) {
    Loops::multiply(into, from, count, by);
  }
};
struct dividing_all {
  template <class Loops>
  static void run(void* into, const void* from, std::size_t count, double by) {
    Loops::divide(into, from, count, by);
  }
};

template <class Loops, class Scaling, std::size_t ElementBytes>
inline void scale_share(void* into, const void* from, std::size_t count, double by) {
  constexpr std::size_t in_piece = piece_bytes / ElementBytes;
  const bool aligned = (number_of(into) | number_of(from)) % piece_bytes == 0;
  const std::size_t pieces = aligned ? count / in_piece : 0;
  const share mine;
  for (std::size_t i = mine.first; i < pieces; i += mine.step) {
    const piece x = static_cast<const piece*>(from)[i];
    piece result;
    Scaling::template run<Loops>(&result, &x, in_piece, by);
    static_cast<piece*>(into)[i] = result;
  }
  for (std::size_t i = pieces * in_piece + mine.first; i < count; i += mine.step) {
    const std::size_t at = i * ElementBytes;
    Scaling::template run<Loops>(static_cast<byte*>(into) + at, static_cast<const byte*>(from) + at,
                                 1, by);
  }
}

}  // namespace
}  // namespace tandem::detail

#if defined(TANDEM_FORCED_HOST_DEVICE)
#pragma clang force_cuda_host_device end
#endif

// One of the last three macros is compiled, for one type, with the same loops as in table.hpp.
// Kernel names are those of `kernel_name`.

#ifndef TANDEM_EXCHANGES  // by slot_exchange.hpp
#define TANDEM_EXCHANGES(op, name, type, loops)
#endif
#define TANDEM_COMBINES(op, name, type, loops)                                     \
  TANDEM_ENTRY void tandem_##op##_##name(void* into, const void* a, const void* b, \
                                         unsigned long long count) {               \
    using namespace tandem::detail;                                                \
    combine_share<loops, op, sizeof(type)>(into, a, b, count);                     \
  }                                                                                \
  TANDEM_EXCHANGES(op, name, type, loops)
#define TANDEM_SCALES(verb, scaling, name, type, loops)                                            \
  TANDEM_ENTRY void tandem_##verb##_##name(void* into, const void* from, unsigned long long count, \
                                           double by) {                                            \
    using namespace tandem::detail;                                                                \
    scale_share<loops, scaling, sizeof(type)>(into, from, count, by);                              \
  }

#define TANDEM_KERNELS(name, type, numbers, order, quotient) \
  TANDEM_COMBINES(sum, name, type, numbers)                  \
  TANDEM_COMBINES(product, name, type, numbers)              \
  TANDEM_COMBINES(minimum, name, type, order)                \
  TANDEM_COMBINES(maximum, name, type, order)                \
  TANDEM_SCALES(multiply, multiplying, name, type, numbers)  \
  TANDEM_SCALES(divide, dividing_all, name, type, quotient)

#define TANDEM_KERNELS_OF_FLOATS(name, type) \
  TANDEM_KERNELS(name, type, plain<type>, plain<type>, plain<type>)
#define TANDEM_KERNELS_OF_NARROW(name, number) \
  TANDEM_KERNELS(name, number::storage, one_by_one<number>, by_bits<number>, one_by_one<number>)
#define TANDEM_KERNELS_OF_INTEGERS(name, type)                                            \
  TANDEM_KERNELS(name, type, plain<std::make_unsigned_t<type>>, plain<type>, plain<type>) \
  TANDEM_COMBINES(band, name, type, plain<std::make_unsigned_t<type>>)                    \
  TANDEM_COMBINES(bor, name, type, plain<std::make_unsigned_t<type>>)                     \
  TANDEM_COMBINES(bxor, name, type, plain<std::make_unsigned_t<type>>)
