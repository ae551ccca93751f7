// The exported functions that move data.
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "arguments.hpp"
#include "call_group.hpp"
#include "library_call.hpp"

using namespace tandem::nccl_abi;

namespace {

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
    by_library.add(what, &by.handle(), on, name, from, into, count, how.type, root, how.op).made =
        how.made.get();
    if (how.made) by_library.keep(std::move(how.made));
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
/// are right, and the thread has used the communicator before. False: `post` is for it.
bool post_known(const library_call& call, result& status) {
  call_group& group = call_group::of_thread();
  if (!group.knows(call.by) || call.count == 0 || call.from == nullptr || call.into == nullptr)
    return false;
  if (call.peer >= call.by->size || call.op < 0 || call.op >= built_in_ops) return false;
  const bool is_all_to_all = call.what == function::all_to_all;
  if (is_all_to_all && (call.from == call.into || call.by->library->all_to_all == nullptr))
    return false;
  status = guarded(nullptr, [&] { group.post(call); });
  if (status == success) return true;
  const std::shared_ptr<comm_rank> found = comm_table::of_process().find(call.by);
  if (found) found->set_last_error(last_error_of_thread());
  return true;
}

/// Work of the stream, or at once in the memory of the host.
void copy_on(const comm_rank& by, void* into, const void* from, std::size_t bytes, stream on) {
  if (by.kind() == tandem::memory_kind::host) {
    std::memcpy(into, from, bytes);
  } else {
    by.on().copy(into, from, bytes, on);
  }
}

posted_call::start_function send_to(const comm_rank& by, tandem_buffer message, int to) {
  return [over = by.channels(), message, to](const tandem_call* how, tandem_op** op,
                                             tandem_error* why) {
    return tandem_send(over, message, to, 0, how, op, why);
  };
}

posted_call::start_function receive_from(const comm_rank& by, tandem_buffer message, int from) {
  return [over = by.channels(), message, from](const tandem_call* how, tandem_op** op,
                                               tandem_error* why) {
    return tandem_recv(over, message, from, 0, how, op, why);
  };
}

/// Messages of one call, to be launched together. Programs on one vendor's GPUs call ncclSend and
/// ncclRecv where those on another's call ncclAllToAll, ncclGather and the like, so all of them are
/// the same messages.
struct messages {
  comm_rank& by;
  posting& call;
  int type;

  void send(const void* from, std::size_t count, int to) {
    const tandem_buffer message = buffer_at(by, from, count, type);
    if (by.is_one_island()) {
      call.library(function::send, from, nullptr, count, type, to);
    } else {
      call.message(send_to(by, message, to));
    }
  }
  void receive(void* into, std::size_t count, int from) {
    const tandem_buffer message = buffer_at(by, into, count, type);
    if (by.is_one_island()) {
      call.library(function::recv, nullptr, into, count, type, from);
    } else {
      call.message(receive_from(by, message, from));
    }
  }
  /// The block that stays on this rank: across islands it is copied and is no message.
  void move_own(const void* from, void* into, std::size_t count) {
    if (by.is_one_island()) {
      send(from, count, by.rank());
      receive(into, count, by.rank());
      return;
    }
    const std::size_t bytes = buffer_at(by, into, count, type).bytes;
    buffer_at(by, from, count, type);
    if (bytes == 0) return;
    call.before(
        [&by = by, before = std::move(call.channels().before), into, from, bytes, on = call.on] {
          if (before) before();
          copy_on(by, into, from, bytes, on);
        });
  }
};

result broadcast(const void* from, void* into, std::size_t count, int type, int root, comm over,
                 stream on) {
  constexpr auto name = "ncclBroadcast";
  result status = success;
  if (root >= 0 &&
      post_known({function::broadcast, over, on, name, from, into, count, type, root}, status))
    return status;
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    checked_rank(by, root, name, "root");
    const tandem_buffer data = buffer_at(by, into, count, type);
    const bool is_apart = by.rank() == root && from != into && count != 0;
    if (is_apart) buffer_at(by, from, count, type);
    if (by.is_one_island()) {
      return call.library(function::broadcast, from, into, count, type, root);
    }
    if (is_apart) {
      call.before(
          [&by, into, from, bytes = data.bytes, on] { copy_on(by, into, from, bytes, on); });
    }
    call.message([over = by.channels(), data, root](const tandem_call* how, tandem_op** op,
                                                    tandem_error* why) {
      return tandem_broadcast(over, data, root, how, op, why);
    });
  });
}

}  // namespace

TANDEM_NCCL_FUNCTION(result, ncclAllReduce,
                     (const void* from, void* into, std::size_t count, int type, int op, comm over,
                      stream on)) {
  constexpr auto name = "ncclAllReduce";
  result status = success;
  if (post_known({function::all_reduce, over, on, name, from, into, count, type, -1, op}, status))
    return status;
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    const posted_reduction how_posted = reduction_at_call(by, type, op);
    if (by.is_one_island()) {
      return call.library(function::all_reduce, from, into, count, how_posted);
    }
    const tandem_buffer data = buffer_at(by, from, count, type);
    const tandem_buffer out = buffer_at(by, into, count, type);
    call.message([over = by.channels(), data, out, how = reduction_of(by, how_posted, on)](
                     const tandem_call* with, tandem_op** started, tandem_error* why) {
      return tandem_all_reduce(over, data, out, how, with, started, why);
    });
  });
}

TANDEM_NCCL_FUNCTION(result, ncclReduce,
                     (const void* from, void* into, std::size_t count, int type, int op, int root,
                      comm over, stream on)) {
  constexpr auto name = "ncclReduce";
  result status = success;
  if (root >= 0 &&
      post_known({function::reduce, over, on, name, from, into, count, type, root, op}, status))
    return status;
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    checked_rank(by, root, name, "root");
    const posted_reduction how_posted = reduction_at_call(by, type, op);
    if (by.is_one_island()) {
      return call.library(function::reduce, from, into, count, how_posted, root);
    }
    const tandem_buffer data = buffer_at(by, from, count, type);
    const bool is_root = by.rank() == root;
    const tandem_buffer out =
        is_root ? buffer_at(by, into, count, type) : buffer_at(by, nullptr, 0, type);
    call.message([over = by.channels(), data, out, root, how = reduction_of(by, how_posted, on)](
                     const tandem_call* with, tandem_op** started, tandem_error* why) {
      return tandem_reduce(over, data, out, how, root, with, started, why);
    });
  });
}

TANDEM_NCCL_FUNCTION(result, ncclBroadcast,
                     (const void* from, void* into, std::size_t count, int type, int root,
                      comm over, stream on)) {
  return broadcast(from, into, count, type, root, over, on);
}

TANDEM_NCCL_FUNCTION(result, ncclBcast,
                     (void* data, std::size_t count, int type, int root, comm over, stream on)) {
  return broadcast(data, data, count, type, root, over, on);
}

TANDEM_NCCL_FUNCTION(result, ncclAllGather,
                     (const void* from, void* into, std::size_t count, int type, comm over,
                      stream on)) {
  constexpr auto name = "ncclAllGather";
  result status = success;
  if (post_known({function::all_gather, over, on, name, from, into, count, type, -1}, status))
    return status;
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    const tandem_buffer mine = buffer_at(by, from, count, type);
    const auto ranks = static_cast<std::size_t>(by.size());
    const tandem_buffer all = buffer_at(by, into, count * ranks, type);
    if (by.is_one_island()) {
      return call.library(function::all_gather, from, into, count, type);
    }
    call.message([over = by.channels(), mine, all](const tandem_call* how, tandem_op** op,
                                                   tandem_error* why) {
      return tandem_all_gather(over, mine, all, nullptr, how, op, why);
    });
  });
}

TANDEM_NCCL_FUNCTION(result, ncclReduceScatter,
                     (const void* from, void* into, std::size_t count, int type, int op, comm over,
                      stream on)) {
  constexpr auto name = "ncclReduceScatter";
  result status = success;
  if (post_known({function::reduce_scatter, over, on, name, from, into, count, type, -1, op},
                 status))
    return status;
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    const posted_reduction how_posted = reduction_at_call(by, type, op);
    if (by.is_one_island()) {
      return call.library(function::reduce_scatter, from, into, count, how_posted);
    }
    const auto ranks = static_cast<std::size_t>(by.size());
    const tandem_buffer all = buffer_at(by, from, count * ranks, type);
    const tandem_buffer mine = buffer_at(by, into, count, type);
    call.message([over = by.channels(), all, mine, how = reduction_of(by, how_posted, on)](
                     const tandem_call* with, tandem_op** started, tandem_error* why) {
      return tandem_reduce_scatter(over, all, mine, nullptr, how, with, started, why);
    });
  });
}

TANDEM_NCCL_FUNCTION(result, ncclSend,
                     (const void* from, std::size_t count, int type, int to, comm over,
                      stream on)) {
  constexpr auto name = "ncclSend";
  result status = success;
  if (to >= 0 && post_known({function::send, over, on, name, from, from, count, type, to}, status))
    return status;
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    checked_rank(by, to, name, "peer");
    messages{by, call, type}.send(from, count, to);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclRecv,
                     (void* into, std::size_t count, int type, int from, comm over, stream on)) {
  constexpr auto name = "ncclRecv";
  result status = success;
  if (from >= 0 &&
      post_known({function::recv, over, on, name, into, into, count, type, from}, status))
    return status;
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    checked_rank(by, from, name, "peer");
    messages{by, call, type}.receive(into, count, from);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclGather,
                     (const void* from, void* into, std::size_t count, int type, int root,
                      comm over, stream on)) {
  constexpr auto name = "ncclGather";
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    checked_rank(by, root, name, "root");
    const std::size_t block_bytes = count * bytes_of(type);
    messages all{by, call, type};
    const bool is_root = by.rank() == root;
    std::byte* const own = offset(into, static_cast<std::size_t>(root) * block_bytes);
    if (!is_root) all.send(from, count, root);
    if (is_root && from != own) all.move_own(from, own, count);
    for (int peer = 0; is_root && peer < by.size(); ++peer) {
      if (peer == root) continue;
      all.receive(offset(into, static_cast<std::size_t>(peer) * block_bytes), count, peer);
    }
  });
}

TANDEM_NCCL_FUNCTION(result, ncclScatter,
                     (const void* from, void* into, std::size_t count, int type, int root,
                      comm over, stream on)) {
  constexpr auto name = "ncclScatter";
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    checked_rank(by, root, name, "root");
    const std::size_t block_bytes = count * bytes_of(type);
    messages all{by, call, type};
    const bool is_root = by.rank() == root;
    const std::byte* const own = offset(from, static_cast<std::size_t>(root) * block_bytes);
    if (is_root && into != own) all.move_own(own, into, count);
    for (int peer = 0; is_root && peer < by.size(); ++peer) {
      if (peer == root) continue;
      all.send(offset(from, static_cast<std::size_t>(peer) * block_bytes), count, peer);
    }
    if (!is_root) all.receive(into, count, root);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclAlltoAll,
                     (const void* from, void* into, std::size_t count, int type, comm over,
                      stream on)) {
  constexpr auto name = "ncclAlltoAll";
  result status = success;
  if (post_known({function::all_to_all, over, on, name, from, into, count, type, -1}, status))
    return status;
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    const std::size_t block_bytes = count * bytes_of(type);
    const std::size_t all_bytes = static_cast<std::size_t>(by.size()) * block_bytes;
    // In place, what arrives would overwrite what is still to be sent.
    const void* source = from;
    if (from == into && all_bytes != 0) {
      void* const to = by.copy_for(on, all_bytes);
      source = to;
      if (by.is_one_island()) {
        call.library(function::copy, from, to, all_bytes, uint8);
      } else {
        call.before([&by, to, from, all_bytes, on] { copy_on(by, to, from, all_bytes, on); });
      }
    }
    if (by.is_one_island() && by.library().base->all_to_all != nullptr) {
      return call.library(function::all_to_all, source, into, count, type);
    }
    messages all{by, call, type};
    for (int peer = 0; peer < by.size(); ++peer) {
      const std::size_t at = static_cast<std::size_t>(peer) * block_bytes;
      if (peer == by.rank()) {
        all.move_own(offset(source, at), offset(into, at), count);
        continue;
      }
      all.send(offset(source, at), count, peer);
      all.receive(offset(into, at), count, peer);
    }
  });
}

TANDEM_NCCL_FUNCTION(result, ncclAlltoAllv,
                     (const void* from, const std::size_t* sent, const std::size_t* send_at,
                      void* into, const std::size_t* received, const std::size_t* receive_at,
                      int type, comm over, stream on)) {
  constexpr auto name = "ncclAlltoAllv";
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    const std::size_t element_bytes = bytes_of(type);
    for (const std::size_t* const each : {sent, send_at, received, receive_at}) {
      if (each == nullptr) refuse(invalid_argument, fmt::format("{}: a list is NULL", name));
    }
    messages all{by, call, type};
    for (int peer = 0; peer < by.size(); ++peer) {
      const void* const block = offset(from, send_at[peer] * element_bytes);
      void* const place = offset(into, receive_at[peer] * element_bytes);
      if (peer == by.rank() && sent[peer] == received[peer]) {
        all.move_own(block, place, sent[peer]);
        continue;
      }
      all.send(block, sent[peer], peer);
      all.receive(place, received[peer], peer);
    }
  });
}

// RCCL's names.
TANDEM_NCCL_ALIAS(ncclAllToAll, ncclAlltoAll);
TANDEM_NCCL_ALIAS(ncclAllToAllv, ncclAlltoAllv);
