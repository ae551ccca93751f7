#pragma once

/// Whether memory accesses are checked, which makes them several times slower: loops that repeat
/// what has been checked are shorter then.
namespace tandem::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

/// One of two values of a constant. @param sanitized  that of a build with sanitizers
template <class Value>
constexpr Value unless_sanitized(Value usual, Value sanitized) {
  return is_sanitized ? sanitized : usual;
}

}  // namespace tandem::test
