#pragma once

#include <fmt/format.h>

#include "arguments.hpp"
#include "comm_rank.hpp"

namespace tandem::nccl_abi {

/// What `ncclConfig_t::blocking` says; true without a configuration.
/// @par Errors thrown: `failure`: it was not initialised
bool is_blocking(const config* how);

/// @par Errors thrown: `failure`: there is nowhere to put the result
template <class Result>
void require_pointer(Result* into, const char* call) {
  if (into == nullptr)
    refuse(invalid_argument, fmt::format("{}: the pointer to the result is NULL", call));
}

/// Joins a communicator as `plan` says, at once or at the end of the thread's group.
/// @param into  written when it has joined; if not blocking, at once
void post_join(comm* into, comm_rank::planner plan, memory_kind kind, int device, bool blocking);

}  // namespace tandem::nccl_abi
