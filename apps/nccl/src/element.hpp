#pragma once

#include <tandem.h>

#include <cstddef>

#include "abi.hpp"

namespace tandem::nccl_abi {

/// @par Errors thrown: `failure`: there is no such type
std::size_t bytes_of(int type);
tandem_type tandem_type_of(int type);
/// The value of an element.
double value_of(type of, const std::byte* element) noexcept;

}  // namespace tandem::nccl_abi
