#pragma once

#include <tandem/collectives/communicator.hpp>

namespace tandem {

/// Makes the communicator of all ranks of the job (group id 0) and agrees on its plan. Every rank
/// of the job calls it.
///
/// Ranks exchange their host (`settings::host`, else the host name and boot id of this machine),
/// their channel and their plan settings. One pair of ranks inside a host and one across hosts, the
/// lowest ranks of each, measure latency and rate, unless `settings::profile` supplies them. All
/// ranks compute `plan::of` from the exchanged facts and compare its hash.
///
/// Ranks that all share the memory of one host, up to 16, are then fully connected and share a
/// `board` for short calls, about 70 KB for each rank.
///
/// @param like  an empty view of the memory, host or device, that most collectives of this rank
///   will work on; the measurement uses such memory. One rank with device memory makes the plan one
///   for devices. Calls on other memory are correct, but may be slower.
/// @par Cost  Four small all_gathers, three more for a board, and a few milliseconds for each of
///   the two pairs.
/// @par Errors `errc::call_mismatch`, the same on every rank: what differs, and on which ranks; the
///   fabric stays usable. `errc::unsupported_memory`: the device does not exist, or a channel does
///   not carry its memory. `errc::bad_input` for a profile and `bad_option` for a pin that this
///   rank cannot read: the error is sent to the other ranks and the fabric has failed. Also those
///   of all_gather.
/// @par Cancellation  As under collectives.
asio::awaitable<communicator> make_communicator(fabric& over, settings options,
                                                const_view like = {});

}  // namespace tandem
