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

/// Channels between processes of one user on one host, through memory that they share.
///
/// Two rings in a piece of memory without a name, one each way: nothing is left behind, whoever
/// dies of whatever. While both ends poll, a message takes no system call; an end that sleeps is
/// woken through the Unix socket by which the two have met, whose end is also the news of a death.
/// Long messages are read where they lie in the sender's memory, in one copy, where the kernel
/// allows that (process_vm_readv) and `settings::shm_single_copy` asks for it, and go through the
/// ring otherwise. Those that lie in a `shared_buffer` are copied by the receiver out of that,
/// without a system call.
namespace tandem::shm {

class shared_pages;

/// Host memory that peers of this host can map: long messages sent out of it, whatever the part of
/// it, are copied once, by the receiver, straight into their place. Nothing else differs: it may be
/// sent over any channel and received into, and goes through the ring until the peer has mapped it
/// (with the first long message out of it) or where it cannot. One peer maps up to 32 of them at a
/// time: make a few that are large.
///
/// Long are messages of 32 KiB and more, and all that are announced. Those of an all_reduce up to
/// 512 KiB between two ranks (between n, 2 MiB over n squared) go by the ring all the same: each
/// rank would write lines that the other has just read. A long send is over when the peer has
/// copied it. `bench/compare` measures what all this does beside other memory ("tandem-shared").
class shared_buffer {
 public:
  /// Zeros, at the beginning of a page; all of it is really there. One descriptor of the process.
  /// @par Errors thrown: `errc::limit_exceeded`: no memory, or no descriptor.
  explicit shared_buffer(std::size_t bytes);
  /// Gives all of the memory back, also where peers have it mapped.
  /// @pre no operation has a view of it.
  ~shared_buffer();
  shared_buffer(shared_buffer&& other) noexcept;
  shared_buffer& operator=(shared_buffer&& other) noexcept;

  std::byte* data() const noexcept;  ///< null where it has no bytes
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
  /// @param name  in this network namespace; empty: one that nobody else has. With a secret
  /// (`settings::secret_file`, `settings::job_secret`) every peer has to prove it. Processes of
  /// other users are refused.
  /// @par Errors `errc::address_in_use`, `bad_input`; those of `trust::job_secret`.
  explicit listener(asio::any_io_executor executor, const std::string& name = {},
                    const settings& options = {});
  ~listener();
  listener(listener&&) noexcept;
  listener& operator=(listener&&) noexcept;

  const std::string& name() const noexcept;
  /// The next peer that speaks this protocol. Others are dropped, counted and logged; none may hold
  /// it up for longer than its hello takes.
  asio::awaitable<std::unique_ptr<channel>> accept();
  std::uint64_t strangers() const noexcept;  ///< connections that were dropped
  void close() noexcept;

 private:
  class state;
  std::shared_ptr<state> state_;
};

/// Connects to a listener of this host. Tries again until `options.meet_timeout` while nobody
/// listens there.
/// @par Errors `errc::unreachable`, `not_tandem`, `version_mismatch`, `timed_out`, `not_trusted`;
///   `limit_exceeded` where there is no memory; those of `trust::job_secret`.
asio::awaitable<std::unique_ptr<channel>> connect(std::string name, settings options = {});

/// The ranks that met in `meeting`, all on one host, connected when they first need each other.
/// Names travel through the store; so does the news of a lost rank. Where the store has a
/// `data_key`, every connection proves it.
/// @par Errors `errc::limit_exceeded`: memory, or file descriptors as with `tcp::make_fabric`.
/// @par Errors of `fabric::to`: `errc::unreachable` names the rank that is on another host, or in a
///   container with a network of its own.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options);

}  // namespace tandem::shm
