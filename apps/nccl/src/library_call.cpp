#include "library_call.hpp"

#include <optional>
#include <tandem/library_queue.hpp>

#include "arguments.hpp"

namespace tandem::nccl_abi {
namespace {

using function = library_call::function;

inline void note(const library_call& what) {
  const std::size_t bytes = what.count * bytes_of(what.type);
  if (bytes == 0) return;
  library_queue& queue = *what.by->queue;
  const auto note_reduction = [&](collective as) {
    queue.note(as, bytes, static_cast<data_type>(tandem_type_of(what.type)),
               static_cast<reduce_op>(op_of(what.op, what.made != nullptr)), what.peer);
  };
  switch (what.what) {
    case function::broadcast:
      return queue.note(collective::broadcast, bytes, what.peer);
    case function::all_reduce:
      return note_reduction(collective::all_reduce);
    case function::reduce:
      return note_reduction(collective::reduce);
    case function::all_gather:
      return queue.note(collective::all_gather, bytes);
    case function::reduce_scatter:
      return note_reduction(collective::reduce_scatter);
    case function::all_to_all:
      return queue.note(collective::all_to_all, bytes);
    case function::gather:
      return queue.note(collective::gather, bytes, what.peer);
    case function::scatter:
      return queue.note(collective::scatter, bytes, what.peer);
    case function::send:
      return queue.note_send(what.peer, bytes);
    case function::recv:
      return queue.note_receive(what.peer, bytes);
    case function::copy:
      return;
  }
}

inline detail::nc::result enqueue(const library_call& it, int op, const detail::nccl& by,
                                  detail::nc::comm over) {
  const int type = it.type;
  switch (it.what) {
    case function::broadcast:
      return by.broadcast(it.from, it.into, it.count, type, it.peer, over, it.on);
    case function::all_reduce:
      return by.all_reduce(it.from, it.into, it.count, type, op, over, it.on);
    case function::reduce:
      return by.reduce(it.from, it.into, it.count, type, op, it.peer, over, it.on);
    case function::all_gather:
      return by.all_gather(it.from, it.into, it.count, type, over, it.on);
    case function::reduce_scatter:
      return by.reduce_scatter(it.from, it.into, it.count, type, op, over, it.on);
    case function::all_to_all:
      return by.all_to_all(it.from, it.into, it.count, type, over, it.on);
    case function::gather:
      return by.gather(it.from, it.into, it.count, type, it.peer, over, it.on);
    case function::scatter:
      return by.scatter(it.from, it.into, it.count, type, it.peer, over, it.on);
    case function::send:
      return by.send(it.from, it.count, type, it.peer, over, it.on);
    case function::recv:
      return by.recv(it.into, it.count, type, it.peer, over, it.on);
    case function::copy:
      break;
  }
  return detail::nc::success;
}

/// A premultiplied sum, which is made in the library for one call.
class made_op {
 public:
  made_op(const library_call& of, const detail::nccl& library, detail::nc::comm native)
      : library_(library), native_(native) {
    made_sum sum = *of.made;
    const bool is_here = sum.on_device == nullptr;
    void* const factor = is_here ? sum.factor.data() : const_cast<void*>(sum.on_device);
    require_ok(library_.make_premultiplied_sum(&op_, factor, of.type, is_here ? on_host : on_device,
                                               native_),
               library_, native_, "ncclRedOpCreatePreMulSum");
  }
  ~made_op() { library_.free_op(op_, native_); }
  made_op(const made_op&) = delete;
  made_op& operator=(const made_op&) = delete;
  int op() const noexcept { return op_; }

 private:
  const detail::nccl& library_;
  detail::nc::comm native_;
  int op_ = 0;
};

void copy(const library_call& what) {
  const comm_rank& by = *what.by->by;
  const current_device_guard here(by);
  by.on().copy(what.into, what.from, what.count * bytes_of(what.type), what.on);
}

}  // namespace

bool has(const detail::nccl& library, function what) noexcept {
  switch (what) {
    case function::all_to_all:
      return library.all_to_all != nullptr;
    case function::gather:
      return library.gather != nullptr;
    case function::scatter:
      return library.scatter != nullptr;
    default:
      return true;
  }
}

void make_call(const library_call& what) {
  // Another thread, or the loss of a rank, may have closed it since it was found.
  if (!what.by->is_open)
    refuse(remote_error, "the communicator has been aborted, finished or destroyed");
  if (what.what == function::copy) return copy(what);
  const detail::nccl& library = *what.by->library;
  const detail::nc::comm native = what.by->native;
  note(what);
  std::optional<made_op> made;
  if (what.made != nullptr) made.emplace(what, library, native);
  const detail::nc::result status = enqueue(what, made ? made->op() : what.op, library, native);
  require_ok(status, library, native, what.name);
}

}  // namespace tandem::nccl_abi
