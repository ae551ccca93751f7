#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tandem/channel.hpp>
#include <tandem/fabric.hpp>
#include <tandem/memory.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>

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
  std::uint64_t strangers() const noexcept;  ///< connections dropped in the handshake
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
