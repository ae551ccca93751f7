#pragma once

#include <optional>
#include <tandem/collectives/collectives.hpp>
#include <tandem/error.hpp>

#include "algorithms/blocks.hpp"
#include "group.hpp"

/// What is wrong with the arguments of a collective, if anything; asked before anything is changed
/// or sent.
namespace tandem::detail {

error no_such_root(const group& g, const char* call, int root);
inline std::optional<error> wrong_root(const group& g, const char* call, int root) {
  if (root >= 0 && root < g.size()) return std::nullopt;
  return no_such_root(g, call, root);
}
/// Of a view that is no plain memory of the host.
std::optional<error> wrong_other_memory(group& g, const char* call, const const_view& data);
/// Also memory that this machine has not, or that a channel of the group does not carry.
inline std::optional<error> wrong_memory(group& g, const char* call, const const_view& data) {
  if (data.kind == memory_kind::host && data.data != nullptr) return std::nullopt;
  return wrong_other_memory(g, call, data);
}
/// Whatever memory they lie in.
std::optional<error> wrong_numbers(const char* call, const const_view& data, data_type type,
                                   reduction what);
/// Memory, too.
std::optional<error> wrong_elements(group& g, const char* call, const const_view& data,
                                    data_type type, reduction what);
std::optional<error> wrong_algorithm(collective what, algorithm how);
/// `block` is one of `ranks` blocks of equal length in `all`.
std::optional<error> wrong_share(const group& g, const char* call, const const_view& all,
                                 const const_view& block);
/// Lengths by rank that fill `all`.
std::optional<error> wrong_lengths(const group& g, const char* call, const const_view& all,
                                   std::span<const std::size_t> bytes_of_rank);
/// `block` is that of this rank.
std::optional<error> wrong_block(const group& g, const char* call, const const_view& block,
                                 std::span<const std::size_t> bytes_of_rank);
/// `block` and `all` lie apart, or `block` is where it belongs in `all`.
std::optional<error> wrong_place(const char* call, const const_view& block, const const_view& all,
                                 extent place);
error mixed(const char* call, const const_view& one, const const_view& other);
/// Both lie in the same memory, unless one is empty.
inline std::optional<error> wrong_mix(const char* call, const const_view& one,
                                      const const_view& other) {
  if (one.kind == other.kind && one.device == other.device) return std::nullopt;
  if (one.bytes == 0 || other.bytes == 0) return std::nullopt;
  return mixed(call, one, other);
}
error overlapping(const char* call);
/// They have no byte in common, or are the same.
inline std::optional<error> wrong_overlap(const char* call, const const_view& one,
                                          const const_view& other) {
  const auto from = reinterpret_cast<std::uintptr_t>(one.data);
  const auto at = reinterpret_cast<std::uintptr_t>(other.data);
  const bool apart = from + one.bytes <= at || at + other.bytes <= from;
  if (apart || (from == at && one.bytes == other.bytes)) return std::nullopt;
  return overlapping(call);
}
/// The same memory: whatever is right of one is right of both.
inline bool is_in_place(const const_view& data, const const_view& result) noexcept {
  return data.data == result.data && data.bytes == result.bytes && data.kind == result.kind &&
         data.device == result.device;
}
std::optional<error> wrong_result(const char* call, const const_view& data,
                                  const const_view& result);
/// Both lie in the same memory, and apart.
std::optional<error> wrong_pair(const char* call, const const_view& from, const const_view& into);

/// The first that is wrong. Not a variable that is filled: an empty optional of this length is set
/// to zeros in full, which a short call would notice.
inline std::optional<error> first_wrong() {
  return std::nullopt;
}
template <class First, class... Others>
std::optional<error> first_wrong(First&& found, Others&&... others) {
  if (found) return std::forward<First>(found);
  return first_wrong(std::forward<Others>(others)...);
}

}  // namespace tandem::detail
