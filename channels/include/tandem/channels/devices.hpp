#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>

/// Channels for views in accelerator memory, over any fabric between hosts.
namespace tandem::devices {

/// Takes ownership of `over` and connects the same ranks: `send` and `recv` accept views of host
/// memory and of every accelerator of this machine (`channel_limits::kinds`), whatever memory the
/// peer uses. All ranks must wrap the same kind of fabric. Ranks without an accelerator may take
/// part.
///
/// Channels are not stream-ordered: the data of a device view must be complete before `send`, and
/// nothing else may access a view until its operation completes. Before `send`,
/// `co_await watch.reached(stream)`; for work that follows a `recv`, call `watch.hold(stream)`
/// before it and `release` after it, or queue that work when the receive has completed
/// (`device_watch`).
///
/// `fabric::kind_to` names the transfer method of device payload:
///
/// "forwarding over tcp": through pinned memory on both hosts, in pieces of at most 4 MiB; one
/// piece is copied while another is on the network. A link pins four pieces in each direction when
/// it first transfers device memory.
///
/// "peer copies": between ranks of one host that both have such devices. Once the two ranks have
/// exchanged handles of the allocations, the sender's copy engine writes a long message into the
/// receiver's view, and the receiver's copy engine reads a short one from the sender's memory; no
/// kernel is launched. An allocation is always shared as a whole. Memory that cannot be shared or
/// accessed (no peer access, expandable segments, memory pools) is forwarded instead, which is
/// logged once. Freed memory stays mapped at the peer until other memory is shared or the channel
/// closes. `settings::peer_copies` turns peer copies off.
///
/// "device-direct over rails": where rails use RDMA and their NICs can access the memory of the
/// device (dma-buf, else the vendor's peer memory module). The NICs of both hosts read and write
/// payload of more than `eager_bytes` directly, in pieces of at most 4 MiB; a view that only one
/// end's NICs can access is staged at the other end. An allocation is registered as a whole with
/// its first such message (some milliseconds), so a peer that may write to one view in it could
/// write to all of it: keep memory of other trust domains out of it. It stays registered, and
/// freeing it does not release the memory, until another allocation is registered. Where the driver
/// requires it, a view is complete only after the device has flushed what NICs wrote. No CPU
/// touches these bytes, so only the network protects them with a checksum, whatever
/// `settings::checksum` says. When RDMA fails and TCP takes over, the bytes pass through host
/// memory, and copying them blocks the loop. `settings::gpudirect` turns device-direct off. Staging
/// memory is registered with the NICs, too. No RDMA NIC has been used with a GPU yet: this is
/// tested on devices simulated in host memory.
///
/// Forwarding between ranks of one host uses one ring of pinned memory that both processes map
/// (/proc/PID/fd: the same user and container), without a copy by a CPU, also between vendors;
/// `settings::shared_staging` turns that off. Between two H200: 47 GB/s at 64 MiB, 7.9 where the
/// processes copy (`bench/gpu`).
/// @par Cost  Host memory: only the messages of `over`, one more for each piece of more than 4 KiB.
/// @par Cancellation  As for any channel, except that an operation completes only when no copy
///   engine, including the peer's, accesses its view any more; for a view that a lost peer was
///   writing, 200 ms later.
/// @par Errors  `errc::unsupported_memory` for a view of a device that is not there, with the
///   reason. `device_failed` for the one operation whose copy failed; the peer of a send gets
///   `message_cancelled`. `protocol_violation`, for the channel, where the peer's fabric is of
///   another kind. Otherwise those of `over`.
std::unique_ptr<fabric> make_fabric(std::unique_ptr<fabric> over, settings options);

/// What both ranks of a pair support.
struct common_ground {
  bool peer_copies = false;
  bool shared_staging = false;
  bool gpudirect = false;
};
/// What `fabric::way_to` returns for two such ranks and memory of these kinds; for plans made
/// before there is a job. Single allocations may use another transfer method (see above).
/// @param over  the transport of host memory between them: "tcp"
std::string way_of(memory_kind here, memory_kind there, common_ground both, std::string_view over);

}  // namespace tandem::devices
