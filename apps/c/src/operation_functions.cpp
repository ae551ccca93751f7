#include <fmt/format.h>
#include <tandem.h>

#include <initializer_list>
#include <limits>
#include <tandem/collectives.hpp>
#include <utility>
#include <vector>

#include "group_of_ranks.hpp"
#include "operation.hpp"
#include "status.hpp"

namespace tandem::c {
namespace {

using ordering = operation_state::ordering;

mutable_view view_of(const tandem_buffer& from) {
  // A view of no bytes may have any address.
  static std::byte nothing;
  void* const data = from.data == nullptr && from.bytes == 0 ? &nothing : from.data;
  return {data, from.bytes, kind_of(from.kind), from.device};
}

data_type type_of(const tandem_reduction& how) {
  if (how.type < 0 || how.type > std::numeric_limits<std::uint8_t>::max()) {
    throw error(errc::bad_input, fmt::format("{} is no element type", how.type), "see tandem_type");
  }
  return static_cast<data_type>(how.type);
}

reduction reduction_of(const tandem_reduction& how) {
  if (how.op < 0 || how.op > std::numeric_limits<std::uint8_t>::max()) {
    throw error(errc::bad_input, fmt::format("{} is no reduction", how.op), "see tandem_reduce_op");
  }
  return {static_cast<reduce_op>(how.op), how.factor};
}

std::vector<std::size_t> lengths_of(const std::size_t* given, int ranks) {
  if (given == nullptr) return {};
  return {given, given + ranks};
}

using buffers = std::initializer_list<tandem_buffer>;

/// Orders an operation on device buffers after the work that is on the caller's stream.
void begin_after_stream(operation_state& op, group_of_ranks& among, const tandem_call& call,
                        buffers used) {
  for (const tandem_buffer& each : used) {
    if (each.kind == TANDEM_HOST || each.bytes == 0) continue;
    const auto kind = static_cast<memory_kind>(each.kind);
    op.begin_after(among.job()->side_of(kind, each.device), call.stream);
    return;
  }
}

/// Starts an operation that `make` describes as a body, given the group.
template <class Make>
tandem_status start(tandem_comm* comm, const char* name, const tandem_call* call, tandem_op** op,
                    tandem_error* failed, ordering order, buffers used, Make make) {
  return guarded(failed, [&] {
    require(comm, name, "comm");
    require(op, name, "op");
    *op = nullptr;
    const std::shared_ptr<group_of_ranks>& among = comm->state;
    among->loop().require_here();
    auto made = std::make_unique<tandem_op>();
    made->state = std::make_shared<operation_state>(
        among->loop(), order, call == nullptr ? std::nullopt : limit_of(call->timeout_ms),
        make(among));
    if (call != nullptr && call->has_stream != 0) {
      begin_after_stream(*made->state, *among, *call, used);
    }
    among->submit(made->state);
    *op = made.release();
  });
}

template <class Make>
tandem_status start_collective(tandem_comm* comm, const char* name, const tandem_call* call,
                               tandem_op** op, tandem_error* failed, buffers used, Make make) {
  return start(comm, name, call, op, failed, ordering::collective, used, std::move(make));
}

int checked_tag(const char* name, std::int32_t tag) {
  if (tag >= 0 && tag <= std::numeric_limits<std::uint16_t>::max()) return tag;
  throw error(errc::bad_input, fmt::format("{}: tag {}", name, tag), "tags are 0 to 65535");
}

tandem_status outcome_of(const operation_state& op, tandem_error* failed) {
  if (!op.is_done()) return TANDEM_IN_PROGRESS;
  if (op.failure()) return report(op.failure(), failed);
  return TANDEM_OK;
}

}  // namespace
}  // namespace tandem::c

using namespace tandem::c;
using shared_group = std::shared_ptr<group_of_ranks>;

tandem_status tandem_barrier(tandem_comm* comm, const tandem_call* call, tandem_op** op,
                             tandem_error* error) {
  return start_collective(comm, "tandem_barrier", call, op, error, {}, [](const shared_group& g) {
    return [g](operation_state&) { return tandem::barrier(g->ranks()); };
  });
}

tandem_status tandem_broadcast(tandem_comm* comm, tandem_buffer data, int32_t root,
                               const tandem_call* call, tandem_op** op, tandem_error* error) {
  return start_collective(comm, "tandem_broadcast", call, op, error, {data},
                          [&](const shared_group& g) {
                            return [g, view = view_of(data), root](operation_state&) {
                              return tandem::broadcast(g->ranks(), view, root);
                            };
                          });
}

tandem_status tandem_all_reduce(tandem_comm* comm, tandem_buffer data, tandem_buffer result,
                                tandem_reduction how, const tandem_call* call, tandem_op** op,
                                tandem_error* error) {
  return start_collective(comm, "tandem_all_reduce", call, op, error, {data, result},
                          [&](const shared_group& g) {
                            return [g, from = view_of(data), into = view_of(result),
                                    type = type_of(how), by = reduction_of(how)](operation_state&) {
                              return tandem::all_reduce(g->ranks(), from, into, type, by);
                            };
                          });
}

tandem_status tandem_reduce(tandem_comm* comm, tandem_buffer data, tandem_buffer result,
                            tandem_reduction how, int32_t root, const tandem_call* call,
                            tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_reduce", call, op, error, {data, result}, [&](const shared_group& g) {
        return [g, from = view_of(data), into = view_of(result), type = type_of(how),
                by = reduction_of(how), root](operation_state&) {
          return tandem::reduce(g->ranks(), from, into, type, by, root);
        };
      });
}

tandem_status tandem_all_gather(tandem_comm* comm, tandem_buffer mine, tandem_buffer all,
                                const size_t* bytes_of_rank, const tandem_call* call,
                                tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_all_gather", call, op, error, {mine, all}, [&](const shared_group& g) {
        return [g, from = view_of(mine), into = view_of(all),
                lengths = lengths_of(bytes_of_rank, g->size())](operation_state&) {
          if (lengths.empty()) return tandem::all_gather(g->ranks(), from, into);
          return tandem::all_gather_v(g->ranks(), from, into, lengths);
        };
      });
}

tandem_status tandem_reduce_scatter(tandem_comm* comm, tandem_buffer all, tandem_buffer mine,
                                    const size_t* bytes_of_rank, tandem_reduction how,
                                    const tandem_call* call, tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_reduce_scatter", call, op, error, {all, mine}, [&](const shared_group& g) {
        return [g, from = view_of(all), into = view_of(mine), type = type_of(how),
                by = reduction_of(how),
                lengths = lengths_of(bytes_of_rank, g->size())](operation_state&) {
          if (lengths.empty()) return tandem::reduce_scatter(g->ranks(), from, into, type, by);
          return tandem::reduce_scatter_v(g->ranks(), from, into, lengths, type, by);
        };
      });
}

tandem_status tandem_gather(tandem_comm* comm, tandem_buffer mine, tandem_buffer all,
                            const size_t* bytes_of_rank, int32_t root, const tandem_call* call,
                            tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_gather", call, op, error, {mine, all}, [&](const shared_group& g) {
        return [g, from = view_of(mine), into = view_of(all), root,
                lengths = lengths_of(bytes_of_rank, g->size())](operation_state&) {
          if (lengths.empty()) return tandem::gather(g->ranks(), from, into, root);
          return tandem::gather_v(g->ranks(), from, into, lengths, root);
        };
      });
}

tandem_status tandem_scatter(tandem_comm* comm, tandem_buffer all, tandem_buffer mine,
                             const size_t* bytes_of_rank, int32_t root, const tandem_call* call,
                             tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_scatter", call, op, error, {all, mine}, [&](const shared_group& g) {
        return [g, from = view_of(all), into = view_of(mine), root,
                lengths = lengths_of(bytes_of_rank, g->size())](operation_state&) {
          if (lengths.empty()) return tandem::scatter(g->ranks(), from, into, root);
          return tandem::scatter_v(g->ranks(), from, into, lengths, root);
        };
      });
}

tandem_status tandem_all_to_all(tandem_comm* comm, tandem_buffer from, const size_t* sent,
                                tandem_buffer into, const size_t* received, const tandem_call* call,
                                tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_all_to_all", call, op, error, {from, into}, [&](const shared_group& g) {
        if ((sent == nullptr) != (received == nullptr)) {
          throw tandem::error(tandem::errc::bad_input,
                              "tandem_all_to_all: one of sent and received is NULL",
                              "give both, or neither");
        }
        return
            [g, source = view_of(from), target = view_of(into), out = lengths_of(sent, g->size()),
             in = lengths_of(received, g->size())](operation_state&) {
              if (out.empty()) return tandem::all_to_all(g->ranks(), source, target);
              return tandem::all_to_all_v(g->ranks(), source, out, target, in);
            };
      });
}

tandem_status tandem_send(tandem_comm* comm, tandem_buffer message, int32_t to, int32_t tag,
                          const tandem_call* call, tandem_op** op, tandem_error* error) {
  return start(comm, "tandem_send", call, op, error, ordering::point_to_point, {message},
               [&](const shared_group& g) {
                 return [g, view = view_of(message), to, at = checked_tag("tandem_send", tag)](
                            operation_state&) { return send_to(g, view, to, at); };
               });
}

tandem_status tandem_recv(tandem_comm* comm, tandem_buffer into, int32_t from, int32_t tag,
                          const tandem_call* call, tandem_op** op, tandem_error* error) {
  return start(comm, "tandem_recv", call, op, error, ordering::point_to_point, {into},
               [&](const shared_group& g) {
                 return [g, view = view_of(into), from,
                         at = checked_tag("tandem_recv", tag)](operation_state& self) {
                   if (from == TANDEM_ANY_SOURCE) return receive_from_any(g, view, at, self);
                   return receive_from(g, view, from, at, self);
                 };
               });
}

tandem_status tandem_op_test(tandem_op* op, tandem_error* error) {
  tandem_status status = TANDEM_OK;
  const tandem_status failed = guarded(error, [&] {
    require(op, "tandem_op_test", "op");
    op->state->loop().require_here();
    if (!op->state->is_done()) op->state->poll();
    status = outcome_of(*op->state, error);
  });
  return failed != TANDEM_OK ? failed : status;
}

tandem_status tandem_op_wait(tandem_op* op, int64_t timeout_ms, tandem_error* error) {
  tandem_status status = TANDEM_OK;
  const tandem_status failed = guarded(error, [&] {
    require(op, "tandem_op_wait", "op");
    op->state->loop().require_here();
    op->state->wait(timeout_ms < 0
                        ? progress::time_point::max()
                        : std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms));
    status = outcome_of(*op->state, error);
  });
  return failed != TANDEM_OK ? failed : status;
}

tandem_status tandem_op_wait_stream(tandem_op* op, void* stream, tandem_error* error) {
  return guarded(error, [&] {
    require(op, "tandem_op_wait_stream", "op");
    op->state->loop().require_here();
    op->state->hold(stream);
    if (op->state->is_done() && op->state->failure()) std::rethrow_exception(op->state->failure());
  });
}

size_t tandem_op_bytes(const tandem_op* op) {
  return op->state->bytes;
}

int32_t tandem_op_source(const tandem_op* op) {
  return op->state->source;
}

void tandem_op_on_complete(tandem_op* op, tandem_op_function done, void* context) {
  op->state->on_complete([op, done, context] { done(context, op); });
}

void tandem_op_cancel(tandem_op* op) {
  if (op == nullptr || !op->state->loop().is_here()) return;
  op->state->loop().submit([state = op->state] { state->cancel(); });
}

void tandem_op_release(tandem_op* op) {
  delete op;
}
