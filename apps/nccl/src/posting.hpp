#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "arguments.hpp"
#include "call_group.hpp"
#include "library_call.hpp"

namespace tandem::nccl_abi {

using function = library_call::function;

/// What a program's call becomes, as its arguments are checked.
struct posting {
  comm_rank& by;
  stream on;
  const char* name;
  call_group::new_calls& by_library;
  std::optional<posted_call> by_channels = {};

  void library(function what, const void* from, void* into, std::size_t count, int type,
               int peer = -1) {
    by_library.add(what, &by.handle(), on, name, from, into, count, type, peer);
  }
  void library(function what, const void* from, void* into, std::size_t count, posted_reduction how,
               int root = -1) {
    by_library
        .add(what, &by.handle(), on, name, from, into, count, how.type, root, how.made ? 0 : how.op)
        .made = how.made.get();
    if (how.made) by_library.keep(std::move(how.made));
  }
  /// The vendor's library carries the call, and has a function for it.
  bool is_of_library(function what) const {
    return by.is_one_island() && has(*by.library().base, what);
  }
  posted_call& channels() {
    if (!by_channels) by_channels.emplace();
    return *by_channels;
  }
  void before(std::function<void()> work) { channels().before = std::move(work); }
  void message(posted_call::start_function start) {
    channels().messages.push_back(std::move(start));
  }
};

/// Posts a call whose arguments `describe` checks and describes.
template <class Describe>
result post(comm over, stream on, const char* name, Describe describe) {
  const std::shared_ptr<comm_rank> by = comm_table::of_process().find(over);
  return guarded(by.get(), [&] {
    if (!by) checked(over, name);
    by->require_ready();
    call_group& group = call_group::of_thread();
    call_group::new_calls by_library(group);
    posting call{*by, on, name, by_library};
    describe(*by, call);
    if (by->is_one_island()) return by_library.post(over);
    if (group.is_first_on(*by, on)) require_no_capture(*by, on, name);
    posted_call& posted = call.channels();
    posted.by = by;
    posted.on = on;
    group.post(std::move(posted));
  });
}

/// Posts a call of the vendor's library, if it is known to need no more than that: its arguments
/// are right, and the thread has used the communicator before. Empty: `post` is for it.
/// Arguments of its own, as a `library_call` would be written and read again at once.
std::optional<result> post_known(function what, comm over, stream on, const char* name,
                                 const void* from, const void* into, std::size_t count, int type,
                                 int peer, int op);

/// In one of both ways: the call as the program makes it, which `describe` checks and describes.
template <class Describe>
result post(function what, comm over, stream on, const char* name, const void* from,
            const void* into, std::size_t count, int type, int peer, int op, Describe describe) {
  const std::optional<result> status =
      post_known(what, over, on, name, from, into, count, type, peer, op);
  return status ? *status : post(over, on, name, describe);
}

/// Work of the stream, or at once in the memory of the host.
void copy_on(const comm_rank& by, void* into, const void* from, std::size_t bytes, stream on);

/// Messages of one call, to be launched together. Programs on one vendor's GPUs call ncclSend and
/// ncclRecv where those on another's call ncclAllToAll, ncclGather and the like, so all of them are
/// the same messages.
struct messages {
  comm_rank& by;
  posting& call;
  int type;

  void send(const void* from, std::size_t count, int to);
  void receive(void* into, std::size_t count, int from);
  /// The block that stays on this rank: across islands it is copied and is no message.
  void move_own(const void* from, void* into, std::size_t count);
};

}  // namespace tandem::nccl_abi
