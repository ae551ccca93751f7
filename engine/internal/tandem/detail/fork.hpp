// Private: shared by the engine and the modules built on it, not part of the public interface.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tandem/error.hpp>

namespace tandem::detail {

/// A word in a page that the kernel clears in every child (MADV_WIPEONFORK), however it was forked;
/// null until the first `process_origin`.
extern std::atomic<std::atomic<std::uint32_t>*> process_word;

/// The process that created an object. A child of fork() has a copy of the object, but not its
/// threads, its connections or its rank in a job: it must neither use nor close them.
class process_origin {
 public:
  process_origin() noexcept;
  /// False in a child forked since construction. Costs two loads.
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

/// The error of a child that uses `what` of its parent.
error used_after_fork(std::string_view what);

/// A child of fork() inherits every descriptor, so the peer of a socket would not detect the
/// parent's death until the child ends too. Sockets of these two functions are close-on-exec, and a
/// child of fork() has an empty descriptor of the same number in their place. -1 on failure, with
/// the reason in `errno`.
int open_socket(int family, int type, int protocol) noexcept;
/// @param listener  a listening, non-blocking socket
int accept_socket(int listener) noexcept;
/// The same for a descriptor that was opened elsewhere: a socket, a file or a character device,
/// which is recognised by its inode.
void hide_from_children(int descriptor) noexcept;

/// What a child of fork() has in place of its parent's shared memory.
enum class inherited_as : std::uint8_t {
  zeros,  ///< private zeroed memory: no access to the ranks' communication
  copy,   ///< the same bytes, copy-on-write
};
/// Effective until `forget_mapping`. @param file  of the mapping, for `copy`; must stay open.
void hide_from_children(void* base, std::size_t bytes, inherited_as how, int file) noexcept;
void forget_mapping(void* base) noexcept;

/// Opens a socket or an acceptor of Asio with `open_socket`. @par Errors thrown: `used_after_fork`
/// if its context belongs to the parent process.
template <class Socket>
void open(Socket& which, const typename Socket::protocol_type& protocol, error_code& failure);

/// Accepts a pending connection of `from`. `asio::error::would_block`: there is none.
template <class Acceptor, class Socket>
void accept(Acceptor& from, Socket& into, error_code& failure);

/// @par Errors thrown: `used_after_fork` if the context of this executor belongs to the parent
/// process: both would take events from one kernel queue.
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
