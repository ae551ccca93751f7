#include "posting.hpp"

#include <cstring>

namespace tandem::nccl_abi {
namespace {

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

}  // namespace

// In one piece, as is `call_group::run_calls`: between two calls the library has used most of the
// processor's first cache, so that each function, which is somewhere else, costs a wait for its
// code.
[[gnu::flatten, gnu::hot]] std::optional<result> post_known(function what, comm over, stream on,
                                                            const char* name, const void* from,
                                                            const void* into, std::size_t count,
                                                            int type, int peer, int op) {
  call_group& group = call_group::of_thread();
  if (!group.knows(over) || count == 0 || from == nullptr || into == nullptr) return std::nullopt;
  const bool has_peer = what >= library_call::first_with_peer;
  if (has_peer && (peer < 0 || peer >= over->size)) return std::nullopt;
  if (op < 0 || op >= built_in_ops || !is_type(type)) return std::nullopt;
  if (what == function::all_to_all && from == into) return std::nullopt;
  if (!has(*over->library, what)) return std::nullopt;
  const result status = guarded(
      nullptr, [&] { group.post(what, over, on, name, from, into, count, type, peer, op); });
  if (status == success) return success;
  if (!over->is_open) return std::nullopt;  // meanwhile, and `post` has the reason
  const std::shared_ptr<comm_rank> found = comm_table::of_process().find(over);
  if (found) found->set_last_error(last_error_of_thread());
  return status;
}

void copy_on(const comm_rank& by, void* into, const void* from, std::size_t bytes, stream on) {
  if (by.kind() == memory_kind::host) {
    std::memcpy(into, from, bytes);
  } else {
    by.on().copy(into, from, bytes, on);
  }
}

void messages::send(const void* from, std::size_t count, int to) {
  const tandem_buffer message = buffer_at(by, from, count, type);
  if (by.is_one_island()) {
    call.library(function::send, from, nullptr, count, type, to);
  } else {
    call.message(send_to(by, message, to));
  }
}

void messages::receive(void* into, std::size_t count, int from) {
  const tandem_buffer message = buffer_at(by, into, count, type);
  if (by.is_one_island()) {
    call.library(function::recv, nullptr, into, count, type, from);
  } else {
    call.message(receive_from(by, message, from));
  }
}

void messages::move_own(const void* from, void* into, std::size_t count) {
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

}  // namespace tandem::nccl_abi
