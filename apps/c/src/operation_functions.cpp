#include <fmt/format.h>
#include <tandem.h>

#include <cstddef>
#include <numeric>
#include <span>
#include <tandem/collectives.hpp>
#include <utility>
#include <vector>

#include "call_arguments.hpp"
#include "call_batch.hpp"
#include "group_of_ranks.hpp"
#include "operation.hpp"
#include "status.hpp"

namespace tandem::c {
namespace {

using ordering = operation_state::ordering;

/// What an operation does: a body for the loop, and the same as a call of a vendor's library.
struct work {
  operation_body by_channels;    ///< empty: of the data of `by_library`
  library_call by_library = {};  ///< without `make`: channels only
  int type = -1;                 ///< of elements that are combined
};

/// A view that is used at the root only.
mutable_view at_root(const std::shared_ptr<group_of_ranks>& among, int root,
                     const tandem_buffer& given) {
  return among->rank() == root ? view_of(given) : mutable_view();
}

/// Kernels carry those whose blocks have one length.
collective of_equal(collective what, const std::vector<std::size_t>& lengths) {
  return lengths.empty() ? what : collective::barrier;
}

/// Of the blocks of all ranks. @param own  a block
std::size_t bytes_of_all(std::span<const std::size_t> lengths, const_view own,
                         const group_of_ranks& among) {
  if (lengths.empty()) return own.bytes * static_cast<std::size_t>(among.size());
  return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
}

/// Of a collective. @param bytes  as of `data_call`
work data_work(mutable_view from, mutable_view into, std::size_t bytes, data_call::function body,
               library_call by_library, int type = -1) {
  by_library.data = {from, into, false, bytes, std::move(body)};
  by_library.by_kernels.from = from;
  by_library.by_kernels.into = into;
  return {{}, std::move(by_library), type};
}

void start_now(const std::shared_ptr<group_of_ranks>& among, std::shared_ptr<operation_state> op,
               work what, call_batch* together) {
  const bool is_collective = op->order == ordering::collective;
  if (what.by_library.make || (is_collective && among->library() != nullptr)) {
    among->library()->start(std::move(op), std::move(what.by_library), std::move(what.by_channels),
                            together);
  } else {
    if (op->use() != nullptr) among->loop().let_streams_go_on(*op->use());
    among->submit(std::move(op), std::move(what.by_channels));
  }
}

/// What the caller says of its stream.
void set_stream(library_call& to, const tandem_call& call) {
  const int in_stream = in_stream_of(&call);
  to.may_be_in_stream = in_stream != 0 && in_stream != 2 && in_stream != 3;
  to.may_be_by_library_in_stream = in_stream == 1 || in_stream == 3;
  to.may_be_by_kernels = in_stream != 0;
  to.stream = call.stream;
}

/// Of an operation that is a message.
struct message_ends {
  int peer, tag;
  bool is_send;
};

/// Starts a message if a kernel carries it out on the caller's stream: without what the others
/// need, which takes longer than to launch it. Null: none does.
std::shared_ptr<operation_state> start_by_kernels(
    const std::shared_ptr<group_of_ranks>& among, const char* name, const message_ends& of,
    const tandem_buffer& data, const tandem_call* call,
    std::optional<std::chrono::milliseconds> timeout) {
  if (data.kind == TANDEM_HOST || of.tag != 0 || among->library() == nullptr) return nullptr;
  if (call == nullptr || call->has_stream == 0) return nullptr;
  library_call by{.name = name, .peer = of.peer, .is_send = of.is_send, .message = view_of(data)};
  set_stream(by, *call);
  if (!by.may_be_in_stream) return nullptr;
  by.side = among->job()->side_of(by.message.kind, by.message.device);
  return among->library()->start_by_kernels(by, timeout, batch_of(call));
}

/// Starts an operation that `describe` describes, given the group, as `work`.
/// @param message  null: it is none
template <class Describe>
tandem_status start(tandem_comm* comm, const char* name, const tandem_call* call, tandem_op** op,
                    tandem_error* failed, ordering order, buffers used, const message_ends* message,
                    Describe describe) {
  return guarded(failed, [&] {
    require(comm, name, "comm");
    require(op, name, "op");
    *op = nullptr;
    const std::shared_ptr<group_of_ranks>& among = comm->state;
    among->loop().require_here();
    auto made = std::make_unique<tandem_op>();
    const auto timeout = call == nullptr ? std::nullopt : limit_of(call->timeout_ms);
    if (message != nullptr) {
      made->state = start_by_kernels(among, name, *message, *used.begin(), call, timeout);
      if (made->state) {
        if (!message->is_send) made->receives(used.begin()->bytes, message->peer);
        *op = made.release();
        return;
      }
    }
    made->state = std::make_shared<operation_state>(among->loop(), order, timeout);
    work what = describe(among);
    what.by_library.name = name;
    const tandem_buffer* const on_device = find_on_device(used);
    if (on_device == nullptr || among->library() == nullptr) {
      what.by_library.make = nullptr;
      if (!what.by_channels) what.by_channels = body_of(std::move(what.by_library.data));
      what.by_library.data = {};
    }
    if (on_device != nullptr) {
      const memory_kind kind = kind_of(on_device->kind);
      std::shared_ptr<device_side> side = among->job()->side_of(kind, on_device->device);
      made->state->kind = kind;
      made->state->set_use(side->use());
      what.by_library.side = side;
      if (call != nullptr && call->has_stream != 0) {
        set_stream(what.by_library, *call);
        what.by_library.is_in_stream =
            among->library() != nullptr && among->library()->is_in_stream(what.by_library);
        if (what.by_library.is_in_stream) {
          side->require_no_capture(call->stream);
        } else {
          made->state->begin_after(std::move(side), call->stream);
        }
        made->state->set_kind(among->job()->calls(),
                              {name, what.type, what.by_library.peer, on_device->bytes});
      }
      if (!what.by_library.is_in_stream) made->state->uses_driver();
    }
    if (call_batch* const together = batch_of(call)) {
      const bool is_send = what.by_library.is_send;
      together->add(made->state, is_send,
                    [among, op = made->state, what = std::move(what)](call_batch& with) mutable {
                      start_now(among, std::move(op), std::move(what), &with);
                    });
    } else {
      start_now(among, made->state, std::move(what), nullptr);
    }
    *op = made.release();
  });
}

template <class Describe>
tandem_status start_collective(tandem_comm* comm, const char* name, collective what,
                               const tandem_call* call, tandem_op** op, tandem_error* failed,
                               buffers used, Describe describe) {
  return start(comm, name, call, op, failed, ordering::collective, used, nullptr,
               [&](const std::shared_ptr<group_of_ranks>& among) {
                 work described = describe(among);
                 described.by_library.what = what;
                 return described;
               });
}

/// A reduction that the library may not have.
std::function<bool(const tandem::library_queue&)> has(data_type type, reduction how) {
  return [type, op = how.op](const tandem::library_queue& queue) { return queue.has(type, op); };
}

/// A message. The library has no tags, and no messages of a rank to itself: channels carry those.
work message_work(const group_of_ranks& among, int peer, int tag, bool is_send, mutable_view view,
                  data_call::function body, std::function<void(tandem::library_queue&)> make) {
  library_call by_library{.peer = peer, .is_send = is_send};
  const bool is_other = peer >= 0 && peer < among.size() && peer != among.rank();
  if (tag == 0 && is_other) {
    by_library.message = view;
    by_library.make = std::move(make);
    by_library.data = {view, is_send ? mutable_view() : view, !is_send, view.bytes,
                       std::move(body)};
    return {{}, std::move(by_library)};
  }
  return {body_of({view, view, false, view.bytes, std::move(body)}), std::move(by_library)};
}

}  // namespace
}  // namespace tandem::c

using namespace tandem::c;
using tandem::collective, tandem::data_type, tandem::library_queue, tandem::mutable_view,
    tandem::reduction;
using shared_group = std::shared_ptr<group_of_ranks>;

tandem_status tandem_barrier(tandem_comm* comm, const tandem_call* call, tandem_op** op,
                             tandem_error* error) {
  return start_collective(
      comm, "tandem_barrier", collective::barrier, call, op, error, {}, [](const shared_group&) {
        return work{[](operation_state& self) { return tandem::barrier(self.ranks()); }};
      });
}

tandem_status tandem_broadcast(tandem_comm* comm, tandem_buffer data, int32_t root,
                               const tandem_call* call, tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_broadcast", collective::broadcast, call, op, error, {data},
      [&](const shared_group& g) {
        const tandem::mutable_view view = view_of(data);
        const bool is_root = g->rank() == root;
        const auto body = [=](operation_state& self, mutable_view from, mutable_view into) {
          return tandem::broadcast(self.ranks(), is_root ? from : into, root);
        };
        return data_work(is_root ? view : mutable_view(), is_root ? mutable_view() : view,
                         view.bytes, body,
                         {.make = [view, root](library_queue& by) { by.broadcast(view, root); },
                          .by_kernels = {.what = collective::broadcast, .root = root}});
      });
}

tandem_status tandem_all_reduce(tandem_comm* comm, tandem_buffer data, tandem_buffer result,
                                tandem_reduction how, const tandem_call* call, tandem_op** op,
                                tandem_error* error) {
  return start_collective(
      comm, "tandem_all_reduce", collective::all_reduce, call, op, error, {data, result},
      [&](const shared_group&) {
        const tandem::mutable_view from = view_of(data), into = view_of(result);
        const data_type type = type_of(how);
        const reduction by = reduction_of(how);
        const auto body = [=](operation_state& self, mutable_view in, mutable_view out) {
          return tandem::all_reduce(self.ranks(), in, out, type, by);
        };
        return data_work(from, into, from.bytes, body,
                         {.is_possible = has(type, by),
                          .make = [=](library_queue& q) { q.all_reduce(from, into, type, by); },
                          .by_kernels = {.what = collective::all_reduce, .type = type, .how = by}},
                         how.type);
      });
}

tandem_status tandem_reduce(tandem_comm* comm, tandem_buffer data, tandem_buffer result,
                            tandem_reduction how, int32_t root, const tandem_call* call,
                            tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_reduce", collective::reduce, call, op, error, {data, result},
      [&](const shared_group& g) {
        const tandem::mutable_view from = view_of(data), into = at_root(g, root, result);
        const data_type type = type_of(how);
        const reduction by = reduction_of(how);
        const auto body = [=](operation_state& self, mutable_view in, mutable_view out) {
          return tandem::reduce(self.ranks(), in, out, type, by, root);
        };
        return data_work(
            from, into, from.bytes, body,
            {.is_possible = has(type, by),
             .make = [=](library_queue& q) { q.reduce(from, into, type, by, root); },
             .by_kernels = {.what = collective::reduce, .type = type, .how = by, .root = root}},
            how.type);
      });
}

tandem_status tandem_all_gather(tandem_comm* comm, tandem_buffer mine, tandem_buffer all,
                                const size_t* bytes_of_rank, const tandem_call* call,
                                tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_all_gather", collective::all_gather, call, op, error, {mine, all},
      [&](const shared_group& g) {
        const tandem::mutable_view from = view_of(mine), into = view_of(all);
        const auto lengths = lengths_of(bytes_of_rank, g->size());
        const auto body = [=](operation_state& self, mutable_view in, mutable_view out) {
          if (lengths.empty()) return tandem::all_gather(self.ranks(), in, out);
          return tandem::all_gather_v(self.ranks(), in, out, lengths);
        };
        return data_work(from, into, into.bytes, body,
                         {.make = [=](library_queue& q) { q.all_gather(from, into, lengths); },
                          .by_kernels = {.what = of_equal(collective::all_gather, lengths)}});
      });
}

tandem_status tandem_reduce_scatter(tandem_comm* comm, tandem_buffer all, tandem_buffer mine,
                                    const size_t* bytes_of_rank, tandem_reduction how,
                                    const tandem_call* call, tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_reduce_scatter", collective::reduce_scatter, call, op, error, {all, mine},
      [&](const shared_group& g) {
        const tandem::mutable_view from = view_of(all), into = view_of(mine);
        const data_type type = type_of(how);
        const reduction by = reduction_of(how);
        const auto lengths = lengths_of(bytes_of_rank, g->size());
        const auto body = [=](operation_state& self, mutable_view in, mutable_view out) {
          if (lengths.empty()) return tandem::reduce_scatter(self.ranks(), in, out, type, by);
          return tandem::reduce_scatter_v(self.ranks(), in, out, lengths, type, by);
        };
        return data_work(
            from, into, from.bytes, body,
            {.is_possible = has(type, by),
             .make = [=](library_queue& q) { q.reduce_scatter(from, into, lengths, type, by); },
             .by_kernels = {.what = of_equal(collective::reduce_scatter, lengths),
                            .type = type,
                            .how = by}},
            how.type);
      });
}

tandem_status tandem_gather(tandem_comm* comm, tandem_buffer mine, tandem_buffer all,
                            const size_t* bytes_of_rank, int32_t root, const tandem_call* call,
                            tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_gather", collective::gather, call, op, error, {mine, all},
      [&](const shared_group& g) {
        const tandem::mutable_view from = view_of(mine), into = at_root(g, root, all);
        const auto lengths = lengths_of(bytes_of_rank, g->size());
        const auto body = [=](operation_state& self, mutable_view in, mutable_view out) {
          if (lengths.empty()) return tandem::gather(self.ranks(), in, out, root);
          return tandem::gather_v(self.ranks(), in, out, lengths, root);
        };
        return data_work(from, into, bytes_of_all(lengths, from, *g), body,
                         {.make = [=](library_queue& q) { q.gather(from, into, lengths, root); }});
      });
}

tandem_status tandem_scatter(tandem_comm* comm, tandem_buffer all, tandem_buffer mine,
                             const size_t* bytes_of_rank, int32_t root, const tandem_call* call,
                             tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_scatter", collective::scatter, call, op, error, {all, mine},
      [&](const shared_group& g) {
        const tandem::mutable_view from = at_root(g, root, all), into = view_of(mine);
        const auto lengths = lengths_of(bytes_of_rank, g->size());
        const auto body = [=](operation_state& self, mutable_view in, mutable_view out) {
          if (lengths.empty()) return tandem::scatter(self.ranks(), in, out, root);
          return tandem::scatter_v(self.ranks(), in, out, lengths, root);
        };
        return data_work(from, into, bytes_of_all(lengths, into, *g), body,
                         {.make = [=](library_queue& q) { q.scatter(from, into, lengths, root); }});
      });
}

tandem_status tandem_all_to_all(tandem_comm* comm, tandem_buffer from, const size_t* sent,
                                tandem_buffer into, const size_t* received, const tandem_call* call,
                                tandem_op** op, tandem_error* error) {
  return start_collective(
      comm, "tandem_all_to_all", collective::all_to_all, call, op, error, {from, into},
      [&](const shared_group& g) {
        if ((sent == nullptr) != (received == nullptr)) {
          throw tandem::error(tandem::errc::bad_input,
                              "tandem_all_to_all: one of sent and received is NULL",
                              "give both, or neither");
        }
        const tandem::mutable_view source = view_of(from), target = view_of(into);
        const auto to = lengths_of(sent, g->size()), of = lengths_of(received, g->size());
        const auto body = [=](operation_state& self, mutable_view in, mutable_view out) {
          if (to.empty()) return tandem::all_to_all(self.ranks(), in, out);
          return tandem::all_to_all_v(self.ranks(), in, to, out, of);
        };
        // The lengths of other ranks are unknown.
        const std::size_t bytes = to.empty() ? source.bytes : 0;
        return data_work(source, target, bytes, body,
                         {.make = [=](library_queue& q) { q.all_to_all(source, to, target, of); }});
      });
}

tandem_status tandem_send(tandem_comm* comm, tandem_buffer message, int32_t to, int32_t tag,
                          const tandem_call* call, tandem_op** op, tandem_error* error) {
  const message_ends ends{to, tag, true};
  return start(comm, "tandem_send", call, op, error, ordering::point_to_point, {message}, &ends,
               [&](const shared_group& g) {
                 const mutable_view view = view_of(message);
                 const int at = checked_tag("tandem_send", tag);
                 const auto body = [=](operation_state&, mutable_view from, mutable_view) {
                   return send_to(g, from, to, at);
                 };
                 return message_work(*g, to, at, true, view, body,
                                     [view](library_queue& q) { q.send(view); });
               });
}

tandem_status tandem_recv(tandem_comm* comm, tandem_buffer into, int32_t from, int32_t tag,
                          const tandem_call* call, tandem_op** op, tandem_error* error) {
  const message_ends ends{from, tag, false};
  return start(comm, "tandem_recv", call, op, error, ordering::point_to_point, {into}, &ends,
               [&](const shared_group& g) {
                 const mutable_view view = view_of(into);
                 const int at = checked_tag("tandem_recv", tag);
                 const auto body = [=](operation_state& self, mutable_view, mutable_view where) {
                   if (from == TANDEM_ANY_SOURCE) return receive_from_any(g, where, at, self);
                   return receive_from(g, where, from, at, self);
                 };
                 return message_work(*g, from, at, false, view, body,
                                     [view](library_queue& q) { q.recv(view); });
               });
}
