#pragma once

#include <cstddef>
#include <cstdint>
#include <tandem/detail/nccl.hpp>

#include "abi.hpp"
#include "comm_handle.hpp"

namespace tandem::nccl_abi {

struct made_sum;

/// One call of the vendor's library, with the program's arguments.
struct library_call {
  enum class function : std::uint8_t {
    all_reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    copy,  ///< not of the library: work of the stream before the calls that follow
    // With a peer or a root.
    broadcast,
    reduce,
    gather,
    scatter,
    send,
    recv
  };
  static constexpr function first_with_peer = function::broadcast;

  /// @pre the type and the operation are the library's
  library_call(function what_, comm by_, stream on_, const char* name_, const void* from_,
               const void* into_, std::size_t count_, int type_, int peer_, int op_ = 0) noexcept
      : what(what_),
        type(static_cast<std::uint8_t>(type_)),
        op(static_cast<std::uint8_t>(op_)),
        peer(peer_),
        by(by_),
        on(on_),
        name(name_),
        from(from_),
        into(const_cast<void*>(into_)),
        count(count_) {}

  // 64 bytes: a line of the cache.
  function what;
  std::uint8_t type;
  std::uint8_t op;  ///< if it reduces, and not by `made`
  int peer;         ///< of a message, or the root; else -1
  comm by;
  stream on;
  const char* name;  ///< of the program's call, for errors
  const void* from;
  void* into;
  std::size_t count;
  const made_sum* made = nullptr;  ///< the operation, or null; the group keeps it alive
};
static_assert(sizeof(library_call) == 64);

/// Whether the library has that function: older ones lack some.
bool has(const detail::nccl& library, library_call::function what) noexcept;

/// Makes the call, which the rank's watch compares with those of the other ranks then. Of no bytes
/// it is none there: the library ignores it, and other ranks need not make it.
/// @pre the handle's mutex is held @par Errors thrown: `failure`
void make_call(const library_call& what);

}  // namespace tandem::nccl_abi
