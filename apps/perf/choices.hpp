#pragma once

#include <optional>
#include <string>
#include <tandem/collectives.hpp>

#include "perf/operation.hpp"

namespace tandem::perf {

/// The operation of that name. @par Errors `errc::bad_option`, with the closest name.
const operation* parse_operation(const std::string& word);

/// The collective that an operation calls; empty if it calls none.
std::optional<collective> collective_of(const operation& op) noexcept;

/// The algorithm of that name. @par Errors `errc::bad_option` if the operation has no such
/// algorithm, with those that it has.
algorithm parse_algorithm(const operation& op, const std::string& word);

}  // namespace tandem::perf
