#pragma once

#include <tandem.h>

#include <string>
#include <tandem/launch.hpp>
#include <tandem/settings.hpp>

namespace tandem::c {

/// Where the ranks of a job meet, as they find out through a store of the caller's: rank 0 chooses
/// the address of Tandem's own store, which also watches over the ranks. It is on loopback where
/// all ranks run on one host; else an address that other hosts can use, and a new secret for the
/// job, unless `options` has one.
/// @param options  receives that secret
/// @par Cost  Each rank sets and gets one key, rank 0 one for each rank.
/// @par Errors thrown: `errc::bad_input`: the caller's store failed; `errc::unreachable`: this host
///   has no address for ranks of other hosts.
launch_info meet_through(const tandem_store& store, std::string job, int rank, int size,
                         settings& options);

}  // namespace tandem::c
