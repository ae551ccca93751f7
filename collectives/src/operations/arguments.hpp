#pragma once

#include <optional>
#include <tandem/collectives.hpp>
#include <tandem/error.hpp>

#include "communicator/group.hpp"
#include "partition/blocks.hpp"

/// Checks of the arguments of a collective, made before anything is changed or sent. Each returns
/// the error, or nothing if the arguments are valid.
namespace tandem::detail {

/// What carries out a call: the islands of the group, or an algorithm over its channels.
struct call_backend {
  call_backend(group& g) noexcept : channels(&g) {}  // NOLINT: by an algorithm
  call_backend(device_backend& by, collective what) noexcept
      : islands(&by), channels(by.channels_for(what)) {}

  device_backend* islands = nullptr;  ///< null: an algorithm over channels
  group* channels;                    ///< whose channels the data travel on; null: on none
};
/// Islands carry out calls on device memory, unless the caller has chosen an algorithm.
inline call_backend backend_for(group& g, collective what, algorithm how, const const_view& data) {
  device_backend* const islands = g.islands();
  if (islands == nullptr || how != algorithm::automatic || data.kind == memory_kind::host) return g;
  return {*islands, what};
}
/// The same of a reduction, which the islands also must have.
inline call_backend backend_for(group& g, collective what, algorithm how, const const_view& data,
                                data_type type, reduce_op op) {
  if (g.islands() == nullptr || !g.islands()->has(type, op)) return g;
  return backend_for(g, what, how, data);
}

error invalid_root(const group& g, const char* call, int root);
inline std::optional<error> check_root(const group& g, const char* call, int root) {
  if (root >= 0 && root < g.size()) return std::nullopt;
  return invalid_root(g, call, root);
}
/// Checks a view that is null or not in host memory.
std::optional<error> check_other_memory(const call_backend& by, const char* call,
                                        const const_view& data);
/// Checks that a view is in the memory of that device, the one that carries the call.
std::optional<error> check_device(const accelerator& own, const char* call, const const_view& data);
/// Fails for memory of a device that does not exist, that a channel does not carry, or that is not
/// the islands'.
inline std::optional<error> check_memory(const call_backend& by, const char* call,
                                         const const_view& data) {
  if (data.kind == memory_kind::host && data.data != nullptr) return std::nullopt;
  return check_other_memory(by, call, data);
}
/// Checks memory, type, operation, length and alignment.
std::optional<error> check_elements(const call_backend& by, const char* call,
                                    const const_view& data, data_type type, reduction what);
std::optional<error> check_algorithm(collective what, algorithm how);
/// Checks that `all` holds one block of the length of `block` for each rank.
std::optional<error> check_equal_blocks(const group& g, const char* call, const const_view& all,
                                        const const_view& block);
/// Checks that there is one length for each rank and that they add up to the bytes of `all`.
std::optional<error> check_lengths(const group& g, const char* call, const const_view& all,
                                   std::span<const std::size_t> bytes_of_rank);
/// Checks that `block` has the length listed for this rank.
std::optional<error> check_block(const group& g, const char* call, const const_view& block,
                                 std::span<const std::size_t> bytes_of_rank);
/// Checks that `block` does not overlap `all`, or is exactly its block at `expected`.
std::optional<error> check_block_position(const char* call, const const_view& block,
                                          const const_view& all, extent expected);
error mixed_memory(const char* call, const const_view& one, const const_view& other);
/// Checks that both views are in the same memory; empty views are ignored.
inline std::optional<error> check_same_memory(const char* call, const const_view& one,
                                              const const_view& other) {
  if (one.kind == other.kind && one.device == other.device) return std::nullopt;
  if (one.bytes == 0 || other.bytes == 0) return std::nullopt;
  return mixed_memory(call, one, other);
}
error overlapping_views(const char* call);
/// Checks that the views do not overlap, or are identical.
inline std::optional<error> check_overlap(const char* call, const const_view& one,
                                          const const_view& other) {
  const auto from = reinterpret_cast<std::uintptr_t>(one.data);
  const auto at = reinterpret_cast<std::uintptr_t>(other.data);
  const bool apart = from + one.bytes <= at || at + other.bytes <= from;
  if (apart || (from == at && one.bytes == other.bytes)) return std::nullopt;
  return overlapping_views(call);
}
/// Whether both views are identical, so that checking one checks both.
inline bool is_in_place(const const_view& data, const const_view& result) noexcept {
  return data.data == result.data && data.bytes == result.bytes && data.kind == result.kind &&
         data.device == result.device;
}
std::optional<error> check_result(const char* call, const const_view& data,
                                  const const_view& result);
/// Checks that both views are in the same memory and do not overlap.
std::optional<error> check_separate_views(const char* call, const const_view& from,
                                          const const_view& into);

/// The first error. Recursive instead of filling one variable: initialising an empty optional of
/// this size zeroes all of it, which is measurable in short calls.
inline std::optional<error> first_error() {
  return std::nullopt;
}
template <class First, class... Others>
std::optional<error> first_error(First&& found, Others&&... others) {
  if (found) return std::forward<First>(found);
  return first_error(std::forward<Others>(others)...);
}

}  // namespace tandem::detail
