#pragma once

#include <optional>
#include <tandem/collectives/collectives.hpp>
#include <tandem/error.hpp>

#include "algorithms/blocks.hpp"
#include "group.hpp"

/// What is wrong with the arguments of a collective, if anything; asked before anything is changed
/// or sent.
namespace tandem::detail {

std::optional<error> wrong_root(const group& g, const char* call, int root);
/// Also memory that this machine has not, or that a channel of the group does not carry.
std::optional<error> wrong_memory(group& g, const char* call, const const_view& data);
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
/// Both lie in the same memory, unless one is empty.
std::optional<error> wrong_mix(const char* call, const const_view& one, const const_view& other);
/// They have no byte in common, or are the same.
std::optional<error> wrong_overlap(const char* call, const const_view& one,
                                   const const_view& other);
std::optional<error> wrong_result(const char* call, const const_view& data,
                                  const const_view& result);
/// Both lie in the same memory, and apart.
std::optional<error> wrong_pair(const char* call, const const_view& from, const const_view& into);

/// The first that is wrong.
template <class... Checks>
std::optional<error> first_wrong(Checks&&... found) {
  std::optional<error> first;
  (void)((found ? (first = std::move(found), true) : false) || ...);
  return first;
}

}  // namespace tandem::detail
