#include <type_traits>
#include <utility>

#include "doubles/nccl/world.hpp"

namespace tandem::test::nccl {
namespace {

constexpr int of_products = -1;

cu::address address(const void* of) {
  return reinterpret_cast<cu::address>(of);
}

/// Checks the call, completes it from its communicator, and starts it or defers it to the end of
/// the group. Whichever device is current: the library makes its communicator's so meanwhile.
nc::result post(const char* name, nc::comm over, posted one) {
  const nc::result said = call(name, [&](world& own, cuda::world& in, cuda::world::lock&) {
    const std::shared_ptr<end> by = own.find(over);
    if (!by || !type_of(one.parameters.type)) return invalid_argument;
    const bool is_message = one.parameters.what == kind::message;
    const int peer = is_message ? static_cast<int>(one.to) : one.parameters.root;
    if (peer < 0 || peer >= by->of->size) return invalid_argument;
    if (!is_message && one.parameters.op > nc::average) {
      const auto made = by->ops.find(one.parameters.op);
      if (made == by->ops.end() || made->second.type != one.parameters.type)
        return invalid_argument;
      one.own_part.factor = made->second.factor;
      one.parameters.op = of_products;
    }
    if (!is_message && one.parameters.count == 0) return nc::success;
    one.own_part.by = by;
    if (groups_of_this_thread().depth == 0) return own.start(in, {one});
    groups_of_this_thread().calls.push_back(one);
    return nc::success;
  });
  group_state& group = groups_of_this_thread();
  if (said != nc::success && group.depth > 0) group.failed = said;
  return said;
}

posted collective(kind what, const void* from, void* into, std::size_t count, int type, int op,
                  int root, nc::stream on) {
  posted one;
  one.parameters = {what, count, type, op, root};
  one.own_part.from = address(from);
  one.own_part.into = address(into);
  one.on = static_cast<cu::stream>(on);
  return one;
}

posted message(const void* from, void* into, std::size_t count, int type, int peer, bool sends,
               nc::stream on) {
  posted one = collective(kind::message, from, into, count, type, 0, 0, on);
  one.to = static_cast<std::size_t>(peer);
  one.sends = sends;
  return one;
}

nc::result group_start() {
  ++groups_of_this_thread().depth;
  return nc::success;
}

nc::result group_end() {
  group_state& own = groups_of_this_thread();
  if (own.depth == 0) return invalid_usage;
  if (--own.depth > 0) return nc::success;
  const nc::result failed = std::exchange(own.failed, nc::success);
  const std::vector<posted> calls = std::exchange(own.calls, {});
  if (failed != nc::success) return failed;
  return call("ncclGroupEnd", [&](world& in, cuda::world& devices, cuda::world::lock&) {
    return in.start(devices, calls);
  });
}

nc::result all_reduce(const void* from, void* into, std::size_t count, int type, int op,
                      nc::comm over, nc::stream on) {
  return post("ncclAllReduce", over,
              collective(kind::all_reduce, from, into, count, type, op, 0, on));
}

nc::result broadcast(const void* from, void* into, std::size_t count, int type, int root,
                     nc::comm over, nc::stream on) {
  return post("ncclBroadcast", over,
              collective(kind::broadcast, from, into, count, type, 0, root, on));
}

nc::result reduce(const void* from, void* into, std::size_t count, int type, int op, int root,
                  nc::comm over, nc::stream on) {
  return post("ncclReduce", over, collective(kind::reduce, from, into, count, type, op, root, on));
}

nc::result all_gather(const void* from, void* into, std::size_t count, int type, nc::comm over,
                      nc::stream on) {
  return post("ncclAllGather", over,
              collective(kind::all_gather, from, into, count, type, 0, 0, on));
}

nc::result reduce_scatter(const void* from, void* into, std::size_t count, int type, int op,
                          nc::comm over, nc::stream on) {
  return post("ncclReduceScatter", over,
              collective(kind::reduce_scatter, from, into, count, type, op, 0, on));
}

nc::result send(const void* from, std::size_t count, int type, int to, nc::comm over,
                nc::stream on) {
  return post("ncclSend", over, message(from, nullptr, count, type, to, true, on));
}

nc::result recv(void* into, std::size_t count, int type, int from, nc::comm over, nc::stream on) {
  return post("ncclRecv", over, message(nullptr, into, count, type, from, false, on));
}

/// What the library does with blocks: `what(rank, ranks)` queues messages of one group.
template <class What>
nc::result in_blocks(const char* name, nc::comm over, int type, What what) {
  int rank = 0, ranks = 0;
  const nc::result found = call(name, [&](world& own, cuda::world&, cuda::world::lock&) {
    const std::shared_ptr<end> by = own.find(over);
    if (!by || !type_of(type)) return invalid_argument;
    rank = by->rank;
    ranks = by->of->size;
    return nc::success;
  });
  if (found != nc::success) return found;
  group_start();
  what(rank, ranks);
  return group_end();
}

/// Moved by so many blocks.
template <class T>
T* block_at(T* first, int block, std::size_t count, int type) {
  using byte_type = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  const std::size_t bytes = count * bytes_of(*type_of(type));
  return static_cast<byte_type*>(first) + static_cast<std::size_t>(block) * bytes;
}

nc::result all_to_all(const void* from, void* into, std::size_t count, int type, nc::comm over,
                      nc::stream on) {
  return in_blocks("ncclAlltoAll", over, type, [&](int, int ranks) {
    for (int peer = 0; peer < ranks; ++peer) {
      send(block_at(from, peer, count, type), count, type, peer, over, on);
      recv(block_at(into, peer, count, type), count, type, peer, over, on);
    }
  });
}

nc::result gather(const void* from, void* into, std::size_t count, int type, int root,
                  nc::comm over, nc::stream on) {
  return in_blocks("ncclGather", over, type, [&](int rank, int ranks) {
    send(from, count, type, root, over, on);
    for (int peer = 0; rank == root && peer < ranks; ++peer)
      recv(block_at(into, peer, count, type), count, type, peer, over, on);
  });
}

nc::result scatter(const void* from, void* into, std::size_t count, int type, int root,
                   nc::comm over, nc::stream on) {
  return in_blocks("ncclScatter", over, type, [&](int rank, int ranks) {
    for (int peer = 0; rank == root && peer < ranks; ++peer)
      send(block_at(from, peer, count, type), count, type, peer, over, on);
    recv(into, count, type, root, over, on);
  });
}

nc::result make_premultiplied_sum(int* into, void* factor, int type, int residence, nc::comm over) {
  return call("ncclRedOpCreatePreMulSum", [&](world& own, cuda::world&, cuda::world::lock&) {
    const std::shared_ptr<end> by = own.find(over);
    const std::optional<data_type> is = type_of(type);
    if (!by || !is || residence != nc::scalar_in_host_memory) return invalid_argument;
    *into = ++own.last_op;
    by->ops.emplace(*into, made_op{type, value_of(*is, factor)});
    return nc::success;
  });
}

nc::result free_op(int which, nc::comm over) {
  return call("ncclRedOpDestroy", [&](world& own, cuda::world&, cuda::world::lock&) {
    const std::shared_ptr<end> by = own.find(over);
    return by && by->ops.erase(which) == 1 ? nc::success : invalid_argument;
  });
}

}  // namespace

void fill_calls(detail::nccl& table) {
  table.group_start = group_start;
  table.group_end = group_end;
  table.all_reduce = all_reduce;
  table.broadcast = broadcast;
  table.reduce = reduce;
  table.all_gather = all_gather;
  table.reduce_scatter = reduce_scatter;
  table.all_to_all = all_to_all;
  table.gather = gather;
  table.scatter = scatter;
  table.send = send;
  table.recv = recv;
  table.make_premultiplied_sum = make_premultiplied_sum;
  table.free_op = free_op;
}

}  // namespace tandem::test::nccl
