#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>

/// Channels whose views may lie in the memory of any accelerator, over any fabric between hosts.
namespace tandem::devices {

/// The ranks of `over`, which it takes: `send` and `recv` take views of host memory and of every
/// accelerator of this machine (`channel_limits::kinds`), whatever the peer's are. All ranks make
/// theirs so, of the same kind of `over`. Works as well where no rank has an accelerator.
///
/// What a view of a device holds has to be there when it is sent, and nothing else may use a view
/// until its operation is over: channels know no streams. Before `send`,
/// `co_await watch.reached(stream)`; for work that shall follow a `recv`, `watch.hold(stream)`
/// before it and `release` after it, or queue that work when the receive is over (`device_watch`).
///
/// `fabric::kind_to` says how payload of devices travels: "forwarding over tcp", that is by way of
/// pinned memory on both hosts, piece by piece of at most 4 MiB, of which one is copied while
/// another is on the wire. A link that meets device memory pins four pieces each way, once.
/// "peer copies" between ranks of one host that both have such devices: as soon as the two have
/// agreed on the allocations, the sender's copy engine writes a long message into the receiver's
/// view, and the receiver's reads a short one where it lies, by no kernel. An allocation is shared
/// whole, and what cannot be shared or reached (no peer access, expandable segments, memory pools)
/// is forwarded, which the log says once. Memory that is freed stays mapped at the peer until other
/// memory is shared or the channel ends. `settings::peer_copies` turns it off.
///
/// "device-direct over rails" where rails go over RDMA and their NICs reach the memory of a device
/// (dma-buf, else the vendor's module for peer memory): payload of more than `eager_bytes` is read
/// and written where it lies, in pieces of at most 4 MiB, by the NICs of both hosts; a view that
/// only one end's NICs reach is staged at the other end. An allocation is registered whole, with
/// its first such message (some milliseconds), and a peer that may write to a view in it could
/// write to all of it: share what such a job may share. It stays registered, and is not free for
/// others after it was freed, until another allocation is registered. A view is complete only after
/// the device has been told to flush what NICs wrote, where its driver asks for that. No processor
/// sees these bytes, so they have no checksum but the wire's, whatever `settings::checksum` says.
/// Where RDMA is lost and TCP takes over, bytes pass the host, which blocks the loop as long as
/// copying them does. `settings::gpudirect` turns it off. Staging is registered with the NICs, too.
/// No RDMA NIC has been used with a GPU yet: this is tested on devices in memory.
///
/// What is forwarded between ranks of one host passes one ring of pinned memory that both processes
/// map (/proc/PID/fd: the same user and container), without a copy by a processor, also between
/// vendors; `settings::shared_staging` turns that off. Between two H200: 47 GB/s at 64 MiB, 7.9
/// where the processes copy (`bench/gpu`).
/// @par Cost  of host memory: none but the messages of `over`, one more for each piece of more than
///   4 KiB.
/// @par Cancellation  As of any channel, but that an operation completes only when no copy engine,
///   the peer's included, touches its view any more; of a view that a peer which is gone was
///   writing, 200 ms later.
/// @par Errors  `errc::unsupported_memory` for a view of a device that is not there, and why.
///   `device_failed`, of the one operation whose copy failed: a send's peer hears
///   `message_cancelled`. `protocol_violation`, of the channel, where the peer's fabric is none of
///   these. Else those of `over`.
std::unique_ptr<fabric> make_fabric(std::unique_ptr<fabric> over, settings options);

/// What two ranks can do by themselves, neither being in the other's way.
struct common_ground {
  bool peer_copies = false;
  bool shared_staging = false;
  bool gpudirect = false;
};
/// What `fabric::way_to` says of two such ranks, between memory of these kinds; for plans that are
/// made before there is a job. As a rule: single allocations may take another way (see above).
/// @param over  what carries host memory between them: "tcp"
std::string way_of(memory_kind here, memory_kind there, common_ground both, std::string_view over);

}  // namespace tandem::devices
