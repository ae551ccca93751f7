#pragma once

#include <tandem/collectives/communicator.hpp>

namespace tandem {

/// All ranks of the job, group id 0, with a plan on which they have agreed. Every rank of the job
/// calls it.
///
/// Ranks tell each other their host (`settings::host`, else the name and the boot of this machine),
/// their channel, and what their settings say of the plan. One pair inside a host and one across,
/// of the lowest ranks, measure latency and rate, unless `settings::profile` tells them. All
/// compute `plan::of` what they then know, and compare its hash.
///
/// @param like  an empty view of the memory that most collectives of this rank will work on, the
///   host's or a device's: what is measured with. One rank with a device makes it a plan for
///   devices. Calls on other memory are as right, and slower than need be.
/// Ranks that all share the memory of one host, 16 at the most, are all connected with each other
/// then, and share a `board` for short calls, of some 70 KB for each of them.
/// @par Cost  Four small all_gathers, three more for a board, and some milliseconds for each of the
///   two pairs.
/// @par Errors `errc::call_mismatch`, the same on every rank: what differs, and on which ranks; the
///   fabric lives on. `errc::unsupported_memory`: there is no such device, or a channel that does
///   not carry its memory. `errc::bad_input` for a profile and `bad_option` for a pin that this
///   rank cannot read: the other ranks hear of it, and the fabric has failed. Those of all_gather.
/// @par Cancellation  As under collectives.
asio::awaitable<communicator> make_communicator(fabric& over, settings options,
                                                const_view like = {});

}  // namespace tandem
