#pragma once

#include <optional>
#include <tandem/collectives/collectives.hpp>
#include <tandem/error.hpp>

#include "group.hpp"

/// What is wrong with the arguments of a collective, if anything; asked before anything is changed
/// or sent.
namespace tandem::detail {

std::optional<error> wrong_root(const group& g, const char* call, int root);
std::optional<error> wrong_memory(const char* call, const const_view& data);
std::optional<error> wrong_elements(const char* call, const const_view& data, data_type type,
                                    reduction what);

}  // namespace tandem::detail
