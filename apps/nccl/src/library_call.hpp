#pragma once

#include <cstddef>
#include <cstdint>
#include <tandem/detail/nccl.hpp>

#include "abi.hpp"
#include "arguments.hpp"

namespace tandem::nccl_abi {

/// One call of the vendor's library, with the program's arguments. Plain data: the library takes
/// some 6 us for a call, of which all that is done beside it is to be a small part.
struct library_call {
  enum class function : std::uint8_t {
    broadcast,
    all_reduce,
    reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    send,
    recv,
    copy  ///< not of the library: work of the stream before the calls that follow
  };

  function what = function::send;
  comm_rank* by = nullptr;  ///< kept alive by whoever keeps the call
  stream on = nullptr;
  const char* name = "";  ///< of the program's call, for errors
  const void* from = nullptr;
  void* into = nullptr;
  std::size_t count = 0;
  posted_reduction how = {};  ///< the type only, unless it reduces
  int peer = -1;              ///< of a message, or the root
};

/// Makes the call, which the rank's watch compares with those of the other ranks then. Of no bytes
/// it is none there: the library ignores it, and other ranks need not make it.
/// @pre the communicator's mutex is held @par Errors thrown: `failure`
void make_call(const library_call& what, const detail::nccl& library);

}  // namespace tandem::nccl_abi
