#pragma once

#include <cstddef>
#include <type_traits>

namespace tandem::test {

/// Values of both types are passed alike in a call: pointers are pointers, enumerations and
/// integers have the same size, structures the same size and alignment, and none a constructor.
template <class Ours, class Theirs>
consteval bool same_value() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_void_v<Ours> && std::is_void_v<Theirs>;
  } else if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else if constexpr (std::is_class_v<Ours> || std::is_class_v<Theirs>) {
    return std::is_class_v<Ours> && std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
           alignof(Ours) == alignof(Theirs) && std::is_trivially_copyable_v<Ours> &&
           std::is_trivially_copyable_v<Theirs>;
  } else if constexpr (std::is_floating_point_v<Ours> || std::is_floating_point_v<Theirs>) {
    return std::is_same_v<Ours, Theirs>;
  } else {
    return sizeof(Ours) == sizeof(Theirs);
  }
}

/// A function of the second type may be called through a pointer to the first.
template <class Ours, class Theirs>
struct same_shape : std::false_type {};

/// @par Pointers to objects of different sizes differ: the callee may write through them.
template <class Ours, class Theirs>
consteval bool same_target() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using mine = std::remove_cv_t<std::remove_pointer_t<Ours>>;
    using other = std::remove_cv_t<std::remove_pointer_t<Theirs>>;
    if constexpr (std::is_void_v<mine> || std::is_void_v<other>) {
      return true;
    } else if constexpr (std::is_function_v<mine> && std::is_function_v<other>) {
      return same_shape<mine*, other*>::value;
    } else if constexpr (std::is_function_v<mine> || std::is_function_v<other>) {
      return false;
    } else if constexpr (std::is_pointer_v<mine> || std::is_arithmetic_v<mine> ||
                         std::is_enum_v<mine>) {
      return same_value<mine, other>();
    } else {
      return true;
    }
  } else {
    return true;
  }
}

template <class R1, class... A1, class R2, class... A2>
requires(sizeof...(A1) == sizeof...(A2)) struct same_shape<R1 (*)(A1...), R2 (*)(A2...)>
    : std::bool_constant<same_value<R1, R2>() && (same_value<A1, A2>() && ...) &&
                         (same_target<A1, A2>() && ...)> {
};

}  // namespace tandem::test
