// The exported functions that move data.
#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "arguments.hpp"
#include "call_group.hpp"
#include "noted_calls.hpp"

using namespace tandem::nccl_abi;
namespace nc = tandem::detail::nc;
using tandem::detail::nccl;

namespace {

/// Posts a call whose arguments `describe` checks and describes, given the communicator.
template <class Describe>
result post(comm over, stream on, const char* name, Describe describe) {
  const std::shared_ptr<comm_rank> by = comm_table::of_process().find(over);
  return guarded(by.get(), [&] {
    if (!by) checked(over, name);
    by->require_ready();
    posted_call call;
    call.by = by;
    call.on = on;
    describe(*by, call);
    call_group& group = call_group::of_thread();
    if (!by->is_one_island() && group.is_first_on(*by, on)) require_no_capture(*by, on, name);
    group.post(std::move(call));
  });
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
  posted_call& call;
  int type;
  struct one {
    void* data;
    std::size_t count;
    int peer;
    bool is_send;
  };
  std::vector<one> all = {};

  void send(const void* from, std::size_t count, int to) {
    const tandem_buffer message = buffer_at(by, from, count, type);
    if (by.is_one_island()) {
      all.push_back({message.data, count, to, true});
    } else {
      call.by_channels.push_back(send_to(by, message, to));
    }
  }
  void receive(void* into, std::size_t count, int from) {
    const tandem_buffer message = buffer_at(by, into, count, type);
    if (by.is_one_island()) {
      all.push_back({message.data, count, from, false});
    } else {
      call.by_channels.push_back(receive_from(by, message, from));
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
    call.before = [&by = by, before = std::move(call.before), into, from, bytes, on = call.on] {
      if (before) before();
      copy_on(by, into, from, bytes, on);
    };
  }
  void finish(const char* name) {
    if (!by.is_one_island()) return;
    call.by_library = [&by = by, all = all, type = type, on = call.on, name](const nccl& library,
                                                                             nc::comm native) {
      for (const one& m : all) note_message(by, m.peer, m.count * bytes_of(type), m.is_send);
      require_ok(library.group_start(), library, native, name);
      nc::result first = nc::success;
      for (const one& m : all) {
        const nc::result done = m.is_send ? library.send(m.data, m.count, type, m.peer, native, on)
                                          : library.recv(m.data, m.count, type, m.peer, native, on);
        if (first == nc::success) first = done;
      }
      const nc::result ended = library.group_end();
      require_ok(first == nc::success ? ended : first, library, native, name);
    };
  }
};

result broadcast(const void* from, void* into, std::size_t count, int type, int root, comm over,
                 stream on) {
  constexpr auto name = "ncclBroadcast";
  return post(over, on, name, [&](comm_rank& by, posted_call& call) {
    checked_rank(by, root, name, "root");
    const tandem_buffer data = buffer_at(by, into, count, type);
    if (by.rank() == root && from != into && count != 0) {
      buffer_at(by, from, count, type);
      if (!by.is_one_island()) {
        call.before = [&by, into, from, bytes = data.bytes, on] {
          copy_on(by, into, from, bytes, on);
        };
      }
    }
    call.by_channels.push_back([over = by.channels(), data, root](
                                   const tandem_call* how, tandem_op** op, tandem_error* why) {
      return tandem_broadcast(over, data, root, how, op, why);
    });
    call.by_library = [=, &by, bytes = data.bytes](const nccl& library, nc::comm native) {
      note(by, tandem::collective::broadcast, bytes, root);
      require_ok(library.broadcast(from, into, count, type, root, native, on), library, native,
                 name);
    };
  });
}

}  // namespace

TANDEM_NCCL_FUNCTION(result, ncclAllReduce,
                     (const void* from, void* into, std::size_t count, int type, int op, comm over,
                      stream on)) {
  constexpr auto name = "ncclAllReduce";
  return post(over, on, name, [&](comm_rank& by, posted_call& call) {
    const posted_reduction how_posted = reduction_at_call(by, type, op);
    call.by_library = [=, &by](const nccl& library, nc::comm native) {
      note(by, tandem::collective::all_reduce, count, how_posted);
      const library_reduction how(how_posted, library, native);
      require_ok(library.all_reduce(from, into, count, type, how.op(), native, on), library, native,
                 name);
    };
    if (by.is_one_island()) return;
    const tandem_buffer data = buffer_at(by, from, count, type);
    const tandem_buffer out = buffer_at(by, into, count, type);
    call.by_channels.push_back(
        [over = by.channels(), data, out, how = reduction_of(by, how_posted, on)](
            const tandem_call* with, tandem_op** started, tandem_error* why) {
          return tandem_all_reduce(over, data, out, how, with, started, why);
        });
  });
}

TANDEM_NCCL_FUNCTION(result, ncclReduce,
                     (const void* from, void* into, std::size_t count, int type, int op, int root,
                      comm over, stream on)) {
  constexpr auto name = "ncclReduce";
  return post(over, on, name, [&](comm_rank& by, posted_call& call) {
    checked_rank(by, root, name, "root");
    const posted_reduction how_posted = reduction_at_call(by, type, op);
    call.by_library = [=, &by](const nccl& library, nc::comm native) {
      note(by, tandem::collective::reduce, count, how_posted, root);
      const library_reduction how(how_posted, library, native);
      require_ok(library.reduce(from, into, count, type, how.op(), root, native, on), library,
                 native, name);
    };
    if (by.is_one_island()) return;
    const tandem_buffer data = buffer_at(by, from, count, type);
    const bool is_root = by.rank() == root;
    const tandem_buffer out =
        is_root ? buffer_at(by, into, count, type) : buffer_at(by, nullptr, 0, type);
    call.by_channels.push_back(
        [over = by.channels(), data, out, root, how = reduction_of(by, how_posted, on)](
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
  return post(over, on, name, [&](comm_rank& by, posted_call& call) {
    const tandem_buffer mine = buffer_at(by, from, count, type);
    const auto ranks = static_cast<std::size_t>(by.size());
    const tandem_buffer all = buffer_at(by, into, count * ranks, type);
    call.by_channels.push_back([over = by.channels(), mine, all](
                                   const tandem_call* how, tandem_op** op, tandem_error* why) {
      return tandem_all_gather(over, mine, all, nullptr, how, op, why);
    });
    call.by_library = [=, &by, bytes = mine.bytes](const nccl& library, nc::comm native) {
      note(by, tandem::collective::all_gather, bytes);
      require_ok(library.all_gather(from, into, count, type, native, on), library, native, name);
    };
  });
}

TANDEM_NCCL_FUNCTION(result, ncclReduceScatter,
                     (const void* from, void* into, std::size_t count, int type, int op, comm over,
                      stream on)) {
  constexpr auto name = "ncclReduceScatter";
  return post(over, on, name, [&](comm_rank& by, posted_call& call) {
    const posted_reduction how_posted = reduction_at_call(by, type, op);
    call.by_library = [=, &by](const nccl& library, nc::comm native) {
      note(by, tandem::collective::reduce_scatter, count, how_posted);
      const library_reduction how(how_posted, library, native);
      require_ok(library.reduce_scatter(from, into, count, type, how.op(), native, on), library,
                 native, name);
    };
    if (by.is_one_island()) return;
    const auto ranks = static_cast<std::size_t>(by.size());
    const tandem_buffer all = buffer_at(by, from, count * ranks, type);
    const tandem_buffer mine = buffer_at(by, into, count, type);
    call.by_channels.push_back(
        [over = by.channels(), all, mine, how = reduction_of(by, how_posted, on)](
            const tandem_call* with, tandem_op** started, tandem_error* why) {
          return tandem_reduce_scatter(over, all, mine, nullptr, how, with, started, why);
        });
  });
}

TANDEM_NCCL_FUNCTION(result, ncclSend,
                     (const void* from, std::size_t count, int type, int to, comm over,
                      stream on)) {
  constexpr auto name = "ncclSend";
  return post(over, on, name, [&](comm_rank& by, posted_call& call) {
    checked_rank(by, to, name, "peer");
    const tandem_buffer message = buffer_at(by, from, count, type);
    if (!by.is_one_island()) return call.by_channels.push_back(send_to(by, message, to));
    call.by_library = [=, &by](const nccl& library, nc::comm native) {
      note_message(by, to, count * bytes_of(type), true);
      require_ok(library.send(from, count, type, to, native, on), library, native, name);
    };
  });
}

TANDEM_NCCL_FUNCTION(result, ncclRecv,
                     (void* into, std::size_t count, int type, int from, comm over, stream on)) {
  constexpr auto name = "ncclRecv";
  return post(over, on, name, [&](comm_rank& by, posted_call& call) {
    checked_rank(by, from, name, "peer");
    const tandem_buffer message = buffer_at(by, into, count, type);
    if (!by.is_one_island()) return call.by_channels.push_back(receive_from(by, message, from));
    call.by_library = [=, &by](const nccl& library, nc::comm native) {
      note_message(by, from, count * bytes_of(type), false);
      require_ok(library.recv(into, count, type, from, native, on), library, native, name);
    };
  });
}

TANDEM_NCCL_FUNCTION(result, ncclGather,
                     (const void* from, void* into, std::size_t count, int type, int root,
                      comm over, stream on)) {
  constexpr auto name = "ncclGather";
  return post(over, on, name, [&](comm_rank& by, posted_call& call) {
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
    all.finish(name);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclScatter,
                     (const void* from, void* into, std::size_t count, int type, int root,
                      comm over, stream on)) {
  constexpr auto name = "ncclScatter";
  return post(over, on, name, [&](comm_rank& by, posted_call& call) {
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
    all.finish(name);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclAlltoAll,
                     (const void* from, void* into, std::size_t count, int type, comm over,
                      stream on)) {
  constexpr auto name = "ncclAlltoAll";
  return post(over, on, name, [&](comm_rank& by, posted_call& call) {
    const std::size_t block_bytes = count * bytes_of(type);
    const std::size_t all_bytes = static_cast<std::size_t>(by.size()) * block_bytes;
    // In place, what arrives would overwrite what is still to be sent.
    const void* source = from;
    if (from == into && all_bytes != 0) {
      source = by.copy_for(on, all_bytes);
      call.before = [&by, to = const_cast<void*>(source), from, all_bytes, on] {
        copy_on(by, to, from, all_bytes, on);
      };
    }
    if (by.is_one_island() && by.library().base->all_to_all != nullptr) {
      call.by_library = [=, &by](const nccl& library, nc::comm native) {
        note(by, tandem::collective::all_to_all, block_bytes);
        require_ok(library.all_to_all(source, into, count, type, native, on), library, native,
                   name);
      };
      return;
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
    all.finish(name);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclAlltoAllv,
                     (const void* from, const std::size_t* sent, const std::size_t* send_at,
                      void* into, const std::size_t* received, const std::size_t* receive_at,
                      int type, comm over, stream on)) {
  constexpr auto name = "ncclAlltoAllv";
  return post(over, on, name, [&](comm_rank& by, posted_call& call) {
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
    all.finish(name);
  });
}

// RCCL's names.
TANDEM_NCCL_ALIAS(ncclAllToAll, ncclAlltoAll);
TANDEM_NCCL_ALIAS(ncclAllToAllv, ncclAlltoAllv);
