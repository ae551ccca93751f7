/// The transports: each makes a fabric, whose channels are all used alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/channel.hpp>
#include <tandem/fabric.hpp>
#include <tandem/memory.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

/// Channels inside one process: the same protocol as over a network, by copies in memory.
namespace tandem::local {

/// Two connected channels, each on its own executor; the executors may run on different threads.
/// @par Cost One copy per message, two for a message that arrives before its receive is posted.
std::pair<std::unique_ptr<channel>, std::unique_ptr<channel>> make_pair(
    asio::any_io_executor first, asio::any_io_executor second, const settings& options = {});

/// One fabric for each executor, all connected with each other. A rank whose fabric is destroyed
/// without `close` counts as lost, and the channels of all other ranks fail.
std::vector<std::unique_ptr<fabric>> make_fabrics(std::vector<asio::any_io_executor> executors,
                                                  const settings& options = {});

}  // namespace tandem::local

/// Channels over one TCP connection.
namespace tandem::tcp {

/// Accepts channels at an address. Close or destroy it to stop; pending accepts end with
/// `errc::channel_closed`.
class listener {
 public:
  /// @param address  numeric; `port` 0 takes a free one. An address other than loopback needs a job
  /// secret (`settings::secret_file`, `settings::job_secret`), which every peer then has to prove,
  /// or `settings::insecure`.
  /// @par Errors `errc::address_in_use`, `bad_input`; `bad_option` where `settings::encrypt` is set
  ///   without a secret; those of `trust::job_secret`.
  listener(asio::any_io_executor executor, const std::string& address, std::uint16_t port,
           const settings& options = {});
  ~listener();
  listener(listener&&) noexcept;
  listener& operator=(listener&&) noexcept;

  std::uint16_t port() const noexcept;
  /// The next peer that completes the handshake. Other connections are dropped, counted and logged;
  /// none delays it for longer than the handshake timeout.
  asio::awaitable<std::unique_ptr<channel>> accept();
  std::uint64_t rejected_connections() const noexcept;  ///< connections dropped in the handshake
  void close() noexcept;

 private:
  class state;
  std::shared_ptr<state> state_;
};

/// Connects to a listener. Retries until `options.meet_timeout` while nothing listens there. With a
/// secret, both ends prove that they have the same; with `settings::encrypt`, the channel is
/// encrypted as well, otherwise its bytes travel in the clear.
/// @par Errors `errc::unreachable`, `not_tandem`, `version_mismatch`, `timed_out`, `not_trusted`;
///   `bad_option` where one end encrypts and the other does not, or where there is no secret to
///   encrypt with; those of `trust::job_secret`.
asio::awaitable<std::unique_ptr<channel>> connect(std::string host, std::uint16_t port,
                                                  settings options = {});

/// Connects the ranks of `meeting` by TCP, each pair on first use. The store distributes the
/// addresses and reports lost ranks. Where the store has a `data_key`, every connection is
/// authenticated with it and, with `settings::encrypt`, encrypted with keys derived from it.
///
/// A rank needs one file descriptor for each peer. Where the soft limit (RLIMIT_NOFILE) of the
/// process is too low for that, it is raised, no further than needed, and logged (info).
/// @par Errors `errc::limit_exceeded` where the hard limit is too low, too: it names the number
///   needed and is reported to every rank. `errc::bad_option` where `settings::encrypt` is set
///   without a key. The channel between two ranks whose settings differ fails with `bad_option`, on
///   both.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options);

}  // namespace tandem::tcp

/// Channels between processes of one user on one host, through shared memory.
///
/// Two rings, one for each direction, in anonymous shared memory: nothing is left behind however a
/// process dies. While both ends poll, a message needs no system call; a sleeping end is woken
/// through the Unix socket over which the two connected, and end of file on that socket reports a
/// dead peer. Long messages are read from the sender's memory in a single copy where the kernel
/// allows it (process_vm_readv) and `settings::shm_single_copy` asks for it, and go through the
/// ring otherwise. Messages in a `shared_buffer` are copied by the receiver from that buffer,
/// without a system call.
namespace tandem::shm {

class shared_pages;

/// Host memory that peers on this host can map: a long message from any part of it is copied once,
/// by the receiver, straight into the receiver's view. Otherwise it is ordinary memory: it may be
/// sent over any channel and received into. Its messages go through the ring until the peer has
/// mapped it (with the first long message from it), or where the peer cannot map it. A peer maps up
/// to 32 buffers at a time, so prefer a few large ones.
///
/// Long messages are those of 32 KiB and more, and all that are announced. Messages of an
/// all_reduce of up to 512 KiB between two ranks (between n ranks, 2 MiB over n squared) use the
/// ring all the same, because each rank would write cache lines that the other has just read. A
/// long send completes when the peer has copied it. `bench/compare` measures the effect
/// ("tandem-shared").
class shared_buffer {
 public:
  /// Zero-filled, page-aligned, all pages allocated up front. Uses one file descriptor.
  /// @par Errors thrown: `errc::limit_exceeded`: no memory, or no descriptor.
  explicit shared_buffer(std::size_t bytes);
  /// Frees all of the memory, also where peers have it mapped.
  /// @pre no operation uses a view of it.
  ~shared_buffer();
  shared_buffer(shared_buffer&& other) noexcept;
  shared_buffer& operator=(shared_buffer&& other) noexcept;

  std::byte* data() const noexcept;  ///< null where the size is 0
  std::size_t size() const noexcept { return bytes_; }
  mutable_view view() const noexcept { return {data(), bytes_}; }

 private:
  std::shared_ptr<const shared_pages> pages_;
  std::size_t bytes_ = 0;
};

/// Accepts channels under a name. Close or destroy it to stop; pending accepts end with
/// `errc::channel_closed`.
class listener {
 public:
  /// @param name  in this network namespace; empty: a unique one. With a job secret
  /// (`settings::secret_file`, `settings::job_secret`) every peer has to prove it. Processes of
  /// other users are refused.
  /// @par Errors `errc::address_in_use`, `bad_input`; those of `trust::job_secret`.
  explicit listener(asio::any_io_executor executor, const std::string& name = {},
                    const settings& options = {});
  ~listener();
  listener(listener&&) noexcept;
  listener& operator=(listener&&) noexcept;

  const std::string& name() const noexcept;
  /// The next peer that completes the handshake. Other connections are dropped, counted and logged;
  /// none delays it for longer than the handshake timeout.
  asio::awaitable<std::unique_ptr<channel>> accept();
  std::uint64_t rejected_connections() const noexcept;  ///< connections dropped in the handshake
  void close() noexcept;

 private:
  class state;
  std::shared_ptr<state> state_;
};

/// Connects to a listener of this host. Retries until `options.meet_timeout` while nothing listens
/// there.
/// @par Errors `errc::unreachable`, `not_tandem`, `version_mismatch`, `timed_out`, `not_trusted`;
///   `limit_exceeded` where there is no memory; those of `trust::job_secret`.
asio::awaitable<std::unique_ptr<channel>> connect(std::string name, settings options = {});

/// Connects the ranks of `meeting`, all on one host, each pair on first use. The store distributes
/// the names and reports lost ranks. Where the store has a `data_key`, every connection is
/// authenticated with it.
/// @par Errors `errc::limit_exceeded`: memory, or file descriptors as with `tcp::make_fabric`.
/// @par Errors of `fabric::to`: `errc::unreachable` names the rank that is on another host, or in a
///   container with its own network namespace.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options);

}  // namespace tandem::shm

/// Several NICs as one channel. A rail is a pair of NICs, one on each side, and the connections
/// bound to it.
namespace tandem::rails {

/// A network interface of this machine, and whether it is used as a rail.
struct rail_choice {
  std::string interface;
  std::string kind;                    ///< "ethernet", "wireless", "veth", "loopback", ...
  std::string mac;                     ///< empty: none
  std::vector<std::string> addresses;  ///< all of them: "10.1.0.2/24"
  std::int64_t speed_mbit = -1;        ///< -1: unknown
  int numa_node = -1;                  ///< -1: unknown
  int mtu = 0;                         ///< bytes
  bool up = false;                     ///< administratively up, with a carrier
  bool chosen = false;
  std::string reason;       ///< "chosen: up, ethernet, 10.1.0.2/24", "left out: down"
  std::string rdma;         ///< "rxe0 port 1, GID 1 (RoCE v2, 10.1.0.2)"; empty: no RDMA on it
  std::string rdma_reason;  ///< why `rdma` is empty, and what to do; empty where `rdma` is set
  /// Other RDMA ports and GIDs of this interface, and why they are not used; a few lines.
  std::vector<std::string> rdma_left_out;
  /// Capabilities of the device of `rdma`, as probed: "messages up to 8 MiB", "inline sending up to
  /// 256 bytes".
  std::vector<std::string> rdma_can;
  /// Missing capabilities, with the reason: "no dma-buf: ibv_reg_dmabuf_mr: Operation not
  /// supported".
  std::vector<std::string> rdma_cannot;
};

/// Every interface of this machine, and whether `options.rails` selects it. Without a job secret
/// only loopback, unless `options.insecure`. Looks for RDMA on each unless `options.rdma` is off; a
/// device that cannot be read is logged as a warning. Queries the kernel and the RDMA devices;
/// milliseconds.
/// @par Errors `errc::bad_option`: a term of `options.rails` that is invalid or matches nothing.
std::vector<rail_choice> explain_rails(const settings& options);

/// An RDMA device of this machine, and whether it can access accelerator memory directly
/// (`tandem::devices::make_fabric`).
struct device_direct_nic {
  std::string device;  ///< "mlx5_0"
  bool reaches = false;
  std::string why;  ///< how, or why not and what is missing
};
/// The RDMA devices of this machine, or why there are none.
struct device_direct_nics {
  std::vector<device_direct_nic> all;
  std::string why_none;  ///< "no RDMA here: ...", one line with what to do; empty: there are some
};
/// For memory of this kind. Opens and closes every device; milliseconds.
/// @param exports_dma_buf  `accelerator_facts::exports_dma_buf`
device_direct_nics find_device_direct_nics(memory_kind kind, bool exports_dma_buf);

/// Connects the ranks of `meeting`, each pair on first use and over all rails that they share. A
/// short message uses one rail; a long one is divided into chunks, and each rail takes the next
/// chunk whenever it has capacity. When a rail fails, its undelivered chunks are sent over the
/// others, and it is used again once it recovers; a rank is lost only when it is silent on every
/// rail for `settings::peer_timeout`. A rank whose loop does not run is busy and not lost, as long
/// as a thread of its fabric answers probes (UDP, at the TCP port numbers of the rails): a warning
/// says for how long. Where the store has a `data_key`, every connection is authenticated with it
/// and, with `settings::encrypt`, encrypted with keys derived from it.
/// @par Errors as `tcp::make_fabric`; `errc::bad_option` where `settings::rails` matches no
///   interface.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options);

}  // namespace tandem::rails

/// The best transport for each pair of ranks: shared memory within a host, the network between
/// hosts.
namespace tandem::mixed {

/// Connects the ranks of `meeting`, each pair on first use: by shared memory (`shm`) where both
/// have the same kernel, network namespace, user and `settings::host`, else by `rails` where
/// `settings::rails` names some, else by `tcp`. Each rank publishes its location, and both ends of
/// a pair decide from the two locations. A rank that cannot share memory logs this (info), and all
/// others use the network to reach it.
///
/// `fabric::kind_to` names the transport chosen: "shm", "rails", "tcp".
/// @par Failure  As for the underlying fabrics: whichever detects that a rank is lost, all channels
///   of every rank fail with that reason; `close` and `fail` apply to all of them.
/// @par Errors those of `tcp::make_fabric` or `rails::make_fabric`. For `fabric::to`: those of
///   `shm::connect` and `tcp::connect`; `errc::bad_option`, on both, where only one of two ranks
///   that share no memory has rails configured.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options);

}  // namespace tandem::mixed

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
/// kernel is launched. An allocation is always shared as a whole. Pages that were made apart from
/// their addresses (PyTorch's expandable segments, ncclMemAlloc) are shared by descriptors, which
/// the peer copies from this process (pidfd_getfd; in a container it may need CAP_SYS_PTRACE).
/// Memory that cannot be shared or accessed (no peer access, memory pools) is forwarded instead,
/// which is logged once. Freed memory stays mapped at the peer until other memory is shared or the
/// channel closes. `settings::peer_copies` turns peer copies off.
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
struct pair_capabilities {
  bool peer_copies = false;
  bool shared_staging = false;
  bool gpudirect = false;
};
/// What `fabric::path_to` returns for two such ranks and memory of these kinds; for plans made
/// before there is a job. Single allocations may use another transfer method (see above).
/// @param over  the transport of host memory between them: "tcp"
std::string expected_transport(memory_kind here, memory_kind there, pair_capabilities both,
                               std::string_view over);

}  // namespace tandem::devices

#pragma GCC visibility pop
