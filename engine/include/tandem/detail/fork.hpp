// Not for users: what the engine and the rooms on it share.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tandem/error.hpp>

namespace tandem::detail {

/// In a page that the kernel clears in every child (MADV_WIPEONFORK), however it was forked; null
/// until the first `process_origin`.
extern std::atomic<std::atomic<std::uint32_t>*> process_word;

/// The process in which an object was made. A child of fork() has a copy of the object, but not its
/// threads, its connections or its share of a job: it must neither use nor close them.
class process_origin {
 public:
  process_origin() noexcept;
  /// False in a child that was forked since. Costs two loads.
  bool is_here() const noexcept {
    return process_word.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) == number_;
  }
  /// @par Errors thrown: `errc::used_after_fork`, unless `is_here`.
  void require_here(std::string_view what) const {
    if (!is_here()) throw_used_after_fork(what);
  }

 private:
  [[noreturn]] static void throw_used_after_fork(std::string_view what);

  std::uint32_t number_;
};

/// What a child says that uses `what` of its parent.
error used_after_fork(std::string_view what);

/// A child of fork() keeps every descriptor of its parent, so the peer of a socket would not hear
/// of the parent's death until the child ends, too. These two are close-on-exec, and a child of
/// fork() holds an empty descriptor of the same number in their place. -1, with the reason in
/// `errno`.
int open_socket(int family, int type, int protocol) noexcept;
/// Of a listening socket that does not block.
int accept_socket(int listener) noexcept;
/// The same for a descriptor that somebody else has opened: of a socket, a file or a character
/// device, which are known again by their inode.
void hide_from_children(int descriptor) noexcept;

/// What a child of fork() finds where its parent shares memory with others.
enum class inherited_as : std::uint8_t {
  zeros,  ///< memory of its own: it can neither read nor disturb what ranks tell each other
  copy,   ///< the same bytes; what it writes is its own
};
/// Until `forget_mapping`. @param file  of the mapping, for a copy; it stays open.
void hide_from_children(void* base, std::size_t bytes, inherited_as how, int file) noexcept;
void forget_mapping(void* base) noexcept;

/// Opens a socket or an acceptor of Asio as `open_socket`. @par Errors thrown: `used_after_fork`
/// where its context belongs to the parent of this process.
template <class Socket>
void open(Socket& which, const typename Socket::protocol_type& protocol, error_code& failure);

/// Takes a connection that waits at `from`. `asio::error::would_block`: there is none any more.
template <class Acceptor, class Socket>
void accept(Acceptor& from, Socket& into, error_code& failure);

/// @par Errors thrown: `used_after_fork` where the context of this executor belongs to the parent
/// of this process: both would take events from one queue of the kernel.
void require_own_context(const boost::asio::any_io_executor& executor);

inline error_code last_failure(int number) noexcept {
  return {number, boost::system::system_category()};
}

template <class Socket>
void open(Socket& which, const typename Socket::protocol_type& protocol, error_code& failure) {
  require_own_context(which.get_executor());
  const int fd = open_socket(protocol.family(), protocol.type(), protocol.protocol());
  if (fd < 0) {
    failure = last_failure(errno);
  } else {
    which.assign(protocol, fd, failure);
  }
}

template <class Acceptor, class Socket>
void accept(Acceptor& from, Socket& into, error_code& failure) {
  const auto protocol = from.local_endpoint(failure).protocol();
  if (failure) return;
  const int fd = accept_socket(from.native_handle());
  if (fd < 0) {
    failure = last_failure(errno);
  } else {
    into.assign(protocol, fd, failure);
  }
}

}  // namespace tandem::detail
