// The exported functions that move data: collectives but those whose ranks exchange blocks, and
// messages.
#include "posting.hpp"

using namespace tandem::nccl_abi;

namespace {

result broadcast(const void* from, void* into, std::size_t count, int type, int root, comm over,
                 stream on) {
  constexpr auto name = "ncclBroadcast";
  return post(function::broadcast, over, on, name, from, into, count, type, root, 0,
              [&](comm_rank& by, posting& call) {
                checked_rank(by, root, name, "root");
                const tandem_buffer data = buffer_at(by, into, count, type);
                const bool is_apart = by.rank() == root && from != into && count != 0;
                if (is_apart) buffer_at(by, from, count, type);
                if (by.is_one_island()) {
                  return call.library(function::broadcast, from, into, count, type, root);
                }
                if (is_apart) {
                  call.before([&by, into, from, bytes = data.bytes, on] {
                    copy_on(by, into, from, bytes, on);
                  });
                }
                call.message([over = by.channels(), data, root](const tandem_call* how,
                                                                tandem_op** op, tandem_error* why) {
                  return tandem_broadcast(over, data, root, how, op, why);
                });
              });
}

}  // namespace

TANDEM_NCCL_FUNCTION(result, ncclAllReduce,
                     (const void* from, void* into, std::size_t count, int type, int op, comm over,
                      stream on)) {
  constexpr auto name = "ncclAllReduce";
  return post(
      function::all_reduce, over, on, name, from, into, count, type, -1, op,
      [&](comm_rank& by, posting& call) {
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
  return post(function::reduce, over, on, name, from, into, count, type, root, op,
              [&](comm_rank& by, posting& call) {
                checked_rank(by, root, name, "root");
                const posted_reduction how_posted = reduction_at_call(by, type, op);
                if (by.is_one_island()) {
                  return call.library(function::reduce, from, into, count, how_posted, root);
                }
                const tandem_buffer data = buffer_at(by, from, count, type);
                const bool is_root = by.rank() == root;
                const tandem_buffer out =
                    is_root ? buffer_at(by, into, count, type) : buffer_at(by, nullptr, 0, type);
                call.message(
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
  return post(function::all_gather, over, on, name, from, into, count, type, -1, 0,
              [&](comm_rank& by, posting& call) {
                const tandem_buffer mine = buffer_at(by, from, count, type);
                const auto ranks = static_cast<std::size_t>(by.size());
                const tandem_buffer all = buffer_at(by, into, count * ranks, type);
                if (by.is_one_island()) {
                  return call.library(function::all_gather, from, into, count, type);
                }
                call.message([over = by.channels(), mine, all](const tandem_call* how,
                                                               tandem_op** op, tandem_error* why) {
                  return tandem_all_gather(over, mine, all, nullptr, how, op, why);
                });
              });
}

TANDEM_NCCL_FUNCTION(result, ncclReduceScatter,
                     (const void* from, void* into, std::size_t count, int type, int op, comm over,
                      stream on)) {
  constexpr auto name = "ncclReduceScatter";
  return post(
      function::reduce_scatter, over, on, name, from, into, count, type, -1, op,
      [&](comm_rank& by, posting& call) {
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
  return post(function::send, over, on, name, from, from, count, type, to, 0,
              [&](comm_rank& by, posting& call) {
                checked_rank(by, to, name, "peer");
                messages{by, call, type}.send(from, count, to);
              });
}

TANDEM_NCCL_FUNCTION(result, ncclRecv,
                     (void* into, std::size_t count, int type, int from, comm over, stream on)) {
  constexpr auto name = "ncclRecv";
  return post(function::recv, over, on, name, into, into, count, type, from, 0,
              [&](comm_rank& by, posting& call) {
                checked_rank(by, from, name, "peer");
                messages{by, call, type}.receive(into, count, from);
              });
}
