/// Collectives on ranges of elements, whose type says which `data_type` they are.
#pragma once

#include <concepts>
#include <ranges>
#include <string_view>
#include <tandem/collectives.hpp>
#include <type_traits>

#pragma GCC visibility push(default)

namespace tandem {

/// The `data_type` of a C++ type. Specialise it for a type of your own that has the layout of one:
///
///   template <>
///   struct tandem::element_type<my::half> {
///     static constexpr data_type value = data_type::float16;
///   };
///
/// Defined for float, double, the integers of 8 to 64 bits, and where the compiler has them
/// std::float16_t and std::bfloat16_t; not for characters and bool.
template <class T>
struct element_type {};
/// float32.
template <>
struct element_type<float> {
  static constexpr data_type value = data_type::float32;
};
/// float64.
template <>
struct element_type<double> {
  static constexpr data_type value = data_type::float64;
};
#ifdef __STDCPP_FLOAT16_T__
/// float16.
template <>
struct element_type<decltype(0.0f16)> {
  static constexpr data_type value = data_type::float16;
};
#endif
#ifdef __STDCPP_BFLOAT16_T__
/// bfloat16.
template <>
struct element_type<decltype(0.0bf16)> {
  static constexpr data_type value = data_type::bfloat16;
};
#endif
/// The integer of that size, signed or not.
template <std::integral T>
requires(sizeof(T) <= 8 && !std::same_as<T, bool> && !detail::character<T>) struct element_type<T> {
  static constexpr data_type value = [] {
    constexpr bool is_signed = std::is_signed_v<T>;
    if (sizeof(T) == 1) return is_signed ? data_type::int8 : data_type::uint8;
    if (sizeof(T) == 2) return is_signed ? data_type::int16 : data_type::uint16;
    if (sizeof(T) == 4) return is_signed ? data_type::int32 : data_type::uint32;
    return is_signed ? data_type::int64 : data_type::uint64;
  }();
};

/// A type with an `element_type` of its size.
template <class T>
concept element = std::is_trivially_copyable_v<T> && requires {
  { element_type<T>::value } -> std::convertible_to<data_type>;
  requires sizeof(T) == bytes_of(element_type<T>::value);
};

/// A contiguous range of elements in host memory: a vector, an array, a span. Not a temporary that
/// owns them.
template <class Range>
concept element_range = detail::bytes_like<std::remove_cvref_t<Range>> &&
    std::ranges::borrowed_range<Range> && element<std::ranges::range_value_t<Range>>;
/// The same, to be written to.
template <class Range>
concept writable_element_range = element_range<Range> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;

namespace detail {

template <class Range>
inline constexpr data_type type_of_elements =
    element_type<std::ranges::range_value_t<Range>>::value;

template <class One, class Other>
concept same_elements =
    std::same_as<std::ranges::range_value_t<One>, std::ranges::range_value_t<Other>>;

/// Whether a range may hold elements of that type: its own, or unsigned integers, as which programs
/// store types that their compiler does not have.
template <class Range>
constexpr bool may_hold(data_type type) noexcept {
  return type_of_elements<Range> == type ||
         std::unsigned_integral<std::ranges::range_value_t<Range>>;
}

/// The error of a call on elements of another type than it names.
asio::awaitable<void> refuse_elements(std::string_view call, data_type elements, data_type named);

}  // namespace detail

/// `all_reduce` of a range of elements, in place. Lengths, order, cost, errors, cancellation and
/// executor are those of the call on views.
///
///   std::vector<double> sums = ...;
///   co_await tandem::all_reduce(among, sums, tandem::reduce_op::sum);
template <writable_element_range Range>
asio::awaitable<void> all_reduce(communicator& among, Range&& data, reduction what,
                                 algorithm how = algorithm::automatic) {
  return all_reduce(among, mutable_view(data), detail::type_of_elements<Range>, what, how);
}
/// The same out of place: writes to `result`, of the same length.
template <element_range From, writable_element_range Into>
requires detail::same_elements<From, Into> asio::awaitable<void> all_reduce(
    communicator& among, From&& data, Into&& result, reduction what,
    algorithm how = algorithm::automatic) {
  return all_reduce(among, const_view(data), mutable_view(result), detail::type_of_elements<From>,
                    what, how);
}
/// `reduce` of ranges of elements. `result` may be empty where this rank is not the root.
template <element_range From, writable_element_range Into>
requires detail::same_elements<From, Into> asio::awaitable<void> reduce(
    communicator& among, From&& data, Into&& result, reduction what, int root,
    algorithm how = algorithm::automatic) {
  return reduce(among, const_view(data), mutable_view(result), detail::type_of_elements<From>, what,
                root, how);
}
/// `reduce_scatter` of ranges of elements.
template <element_range From, writable_element_range Into>
requires detail::same_elements<From, Into> asio::awaitable<void> reduce_scatter(
    communicator& among, From&& all, Into&& mine, reduction what,
    algorithm how = algorithm::automatic) {
  return reduce_scatter(among, const_view(all), mutable_view(mine), detail::type_of_elements<From>,
                        what, how);
}
/// `weighted_mean` of a range of elements.
template <writable_element_range Range>
asio::awaitable<void> weighted_mean(communicator& among, Range&& data, double weight) {
  return weighted_mean(among, mutable_view(data), detail::type_of_elements<Range>, weight);
}

/// `all_reduce` of a range whose type is named as well: `errc::bad_input` if it is another one,
/// before anything is sent. Ranges of unsigned integers may hold any type.
template <writable_element_range Range>
asio::awaitable<void> all_reduce(communicator& among, Range&& data, data_type type, reduction what,
                                 algorithm how = algorithm::automatic) {
  if (!detail::may_hold<Range>(type))
    return detail::refuse_elements("all_reduce", detail::type_of_elements<Range>, type);
  return all_reduce(among, mutable_view(data), type, what, how);
}
/// The same out of place.
template <element_range From, writable_element_range Into>
asio::awaitable<void> all_reduce(communicator& among, From&& data, Into&& result, data_type type,
                                 reduction what, algorithm how = algorithm::automatic) {
  if (!detail::may_hold<From>(type) || !detail::may_hold<Into>(type))
    return detail::refuse_elements("all_reduce", detail::type_of_elements<From>, type);
  return all_reduce(among, const_view(data), mutable_view(result), type, what, how);
}
/// `reduce` with a named type, as `all_reduce`.
template <element_range From, writable_element_range Into>
asio::awaitable<void> reduce(communicator& among, From&& data, Into&& result, data_type type,
                             reduction what, int root, algorithm how = algorithm::automatic) {
  if (!detail::may_hold<From>(type) || !detail::may_hold<Into>(type))
    return detail::refuse_elements("reduce", detail::type_of_elements<From>, type);
  return reduce(among, const_view(data), mutable_view(result), type, what, root, how);
}
/// `reduce_scatter` with a named type, as `all_reduce`.
template <element_range From, writable_element_range Into>
asio::awaitable<void> reduce_scatter(communicator& among, From&& all, Into&& mine, data_type type,
                                     reduction what, algorithm how = algorithm::automatic) {
  if (!detail::may_hold<From>(type) || !detail::may_hold<Into>(type))
    return detail::refuse_elements("reduce_scatter", detail::type_of_elements<From>, type);
  return reduce_scatter(among, const_view(all), mutable_view(mine), type, what, how);
}
/// `weighted_mean` with a named type, as `all_reduce`.
template <writable_element_range Range>
asio::awaitable<void> weighted_mean(communicator& among, Range&& data, data_type type,
                                    double weight) {
  if (!detail::may_hold<Range>(type))
    return detail::refuse_elements("weighted_mean", detail::type_of_elements<Range>, type);
  return weighted_mean(among, mutable_view(data), type, weight);
}

}  // namespace tandem

#pragma GCC visibility pop
