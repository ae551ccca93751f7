// Plain loops: the compiler makes them as wide as the processor. Every element is combined by
// itself, so the width changes no bit.
#include "reduce.hpp"

#include <cstdint>
#include <type_traits>

namespace tandem::detail {
namespace {

// Signed integers wrap around, which only unsigned ones may.
template <class T, bool = std::is_integral_v<T>>
struct arithmetic {
  using type = T;
};
template <class T>
struct arithmetic<T, true> {
  using type = std::make_unsigned_t<T>;
};
template <class T>
using arithmetic_t = typename arithmetic<T>::type;

struct sum {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<arithmetic_t<T>>(a) + static_cast<arithmetic_t<T>>(b));
  }
};
struct product {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<arithmetic_t<T>>(a) * static_cast<arithmetic_t<T>>(b));
  }
};
struct minimum {
  template <class T>
  static T of(T a, T b) {
    return b < a ? b : a;
  }
};
struct maximum {
  template <class T>
  static T of(T a, T b) {
    return a < b ? b : a;
  }
};

template <class T, class Op, bool OtherFirst>
void loop(void* into, const void* other, std::size_t bytes) {
  T* __restrict result = static_cast<T*>(into);
  const T* __restrict operand = static_cast<const T*>(other);
  const std::size_t count = bytes / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) {
    result[i] = OtherFirst ? Op::of(operand[i], result[i]) : Op::of(result[i], operand[i]);
  }
}

template <class Op, bool OtherFirst>
void combine(void* into, const void* other, std::size_t bytes, data_type type) {
  switch (type) {
    case data_type::float32:
      return loop<float, Op, OtherFirst>(into, other, bytes);
    case data_type::float64:
      return loop<double, Op, OtherFirst>(into, other, bytes);
    case data_type::int32:
      return loop<std::int32_t, Op, OtherFirst>(into, other, bytes);
    case data_type::int64:
      return loop<std::int64_t, Op, OtherFirst>(into, other, bytes);
  }
}

template <bool OtherFirst>
void combine(void* into, const void* other, std::size_t bytes, data_type type, reduce_op op) {
  switch (op) {
    case reduce_op::sum:
      return combine<sum, OtherFirst>(into, other, bytes, type);
    case reduce_op::product:
      return combine<product, OtherFirst>(into, other, bytes, type);
    case reduce_op::minimum:
      return combine<minimum, OtherFirst>(into, other, bytes, type);
    case reduce_op::maximum:
      return combine<maximum, OtherFirst>(into, other, bytes, type);
  }
}

}  // namespace

void combine_before(void* into, const void* other, std::size_t bytes, data_type type,
                    reduce_op op) {
  combine<true>(into, other, bytes, type, op);
}

void combine_after(void* into, const void* other, std::size_t bytes, data_type type, reduce_op op) {
  combine<false>(into, other, bytes, type, op);
}

}  // namespace tandem::detail
