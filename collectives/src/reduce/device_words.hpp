// The first part of the kernel source that is compiled at run time, before numbers.hpp, loops.hpp
// and device_loops.hpp without their includes: replaces the standard headers that these use, which
// run-time compilers do not have.
#pragma once

#define std tandem_device_std  // does not collide with a std namespace that the compiler defines
#define INT32_MAX 0x7fffffff
#define INT32_MIN (-INT32_MAX - 1)
#define TANDEM_ENTRY extern "C" __global__
#if defined(__clang__)  // HIP; NVRTC has an option that makes all functions device functions
#define TANDEM_INDEPENDENT_ITERATIONS _Pragma("clang loop unroll(full)")
#define TANDEM_FORCED_HOST_DEVICE
#pragma clang force_cuda_host_device begin
#else
#define TANDEM_INDEPENDENT_ITERATIONS _Pragma("unroll")
#endif

namespace tandem_device_std {

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned;
using uint64_t = unsigned long long;
using size_t = decltype(sizeof(0));

template <bool, class Then, class>
struct choice {
  using type = Then;
};
template <class Then, class Else>
struct choice<false, Then, Else> {
  using type = Else;
};
template <bool If, class Then, class Else>
using conditional_t = typename choice<If, Then, Else>::type;

template <class, class>
constexpr bool is_same_v = false;
template <class T>
constexpr bool is_same_v<T, T> = true;

template <class T>
constexpr bool is_floating_point_v = T(1) / T(2) != T(0);

template <class T>
using make_signed_t = conditional_t<
    sizeof(T) == 1, int8_t,
    conditional_t<sizeof(T) == 2, int16_t, conditional_t<sizeof(T) == 4, int32_t, int64_t>>>;
template <class T>
using make_unsigned_t = conditional_t<
    sizeof(T) == 1, uint8_t,
    conditional_t<sizeof(T) == 2, uint16_t, conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

#if defined(__CUDACC_RTC__)
#define __builtin_isunordered(a, b) ((a) != (a) || (b) != (b))
#endif
#if defined(__CUDACC_RTC__) && __CUDACC_VER_MAJOR__ < 12
#define __builtin_bit_cast(type, x) tandem_device_std::bit_cast<type>(x)
template <class To, class From>
inline To bit_cast(From x) {
  union {
    From from;
    To to;
  } bits{x};
  return bits.to;
}
#endif

}  // namespace tandem_device_std
