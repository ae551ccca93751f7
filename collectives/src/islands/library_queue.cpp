#include <tandem/library_queue.hpp>
#include <utility>

#include "islands/parts.hpp"
#include "operations/arguments.hpp"
#include "partition/blocks.hpp"

namespace tandem {
namespace {

namespace nc = detail::nc;
using detail::blocks;
using detail::bytes_at;
using detail::check_result;
using detail::check_separate_views;
using detail::vendor_calls;

bool is_floating_point(data_type type) noexcept {
  return !is_defined(type, reduce_op::band);
}

blocks blocks_of(std::size_t total_bytes, std::span<const std::size_t> bytes_of_rank, int ranks) {
  if (!bytes_of_rank.empty()) return blocks(bytes_of_rank);
  return {total_bytes / static_cast<std::size_t>(ranks), ranks};
}

template <class... Found>
void throw_first(Found&&... found) {
  if (auto wrong = detail::first_error(std::forward<Found>(found)...)) throw error(*wrong);
}

std::optional<error> check_on(const accelerator& device, const char* call, const const_view& data) {
  if (data.bytes == 0) return std::nullopt;
  return detail::check_device(device, call, data);
}

std::optional<error> check_blocks(const detail::group& g, const char* call, const const_view& all,
                                  const const_view& block,
                                  std::span<const std::size_t> bytes_of_rank) {
  if (bytes_of_rank.empty()) return check_equal_blocks(g, call, all, block);
  return detail::first_error(check_lengths(g, call, all, bytes_of_rank),
                             check_block(g, call, block, bytes_of_rank));
}

std::optional<error> check_reduced(detail::group& g, const char* call, const const_view& data,
                                   data_type type, reduction how) {
  detail::call_backend unchecked(g);
  unchecked.channels = nullptr;
  return check_elements(unchecked, call, data, type, how);
}

}  // namespace

bool library_queue::has(data_type type, reduce_op op) const noexcept {
  if (!detail::vendor_type(type, version_)) return false;
  if (op == reduce_op::average) return is_floating_point(type);
  return op == reduce_op::premultiplied_sum || detail::vendor_op(op, type).has_value();
}

void library_queue::broadcast(mutable_view data, int root) {
  throw_first(check_on(device_, "broadcast", data), check_root(*over_, "broadcast", root));
  note(collective::broadcast, data.bytes, root);
  vendor_calls calls(*by_);
  calls.broadcast(bytes_at(data), bytes_at(data), data.bytes, nc::uint8, root);
  calls.end();
}

void library_queue::all_reduce(const_view data, mutable_view result, data_type type,
                               reduction how) {
  throw_first(check_on(device_, "all_reduce", data),
              check_reduced(*over_, "all_reduce", data, type, how),
              check_result("all_reduce", data, result));
  note(collective::all_reduce, data.bytes, type, how.op);
  const detail::vendor_reduction by(*by_, version_, type, how);
  by_->all_reduce(bytes_at(data), bytes_at(result), data.bytes / bytes_of(type), by.type, by.op);
}

void library_queue::reduce(const_view data, mutable_view result, data_type type, reduction how,
                           int root) {
  throw_first(check_on(device_, "reduce", data), check_reduced(*over_, "reduce", data, type, how),
              check_root(*over_, "reduce", root));
  if (over_->rank() == root) throw_first(check_result("reduce", data, result));
  note(collective::reduce, data.bytes, type, how.op, root);
  const detail::vendor_reduction by(*by_, version_, type, how);
  vendor_calls calls(*by_);
  calls.reduce(bytes_at(data), bytes_at(result), data.bytes / bytes_of(type), by.type, by.op, root);
  calls.end();
}

void library_queue::all_gather(const_view mine, mutable_view all,
                               std::span<const std::size_t> bytes_of_rank) {
  throw_first(check_on(device_, "all_gather", mine), check_on(device_, "all_gather", all),
              check_blocks(*over_, "all_gather", all, mine, bytes_of_rank));
  const blocks cut = blocks_of(all.bytes, bytes_of_rank, over_->size());
  throw_first(check_block_position("all_gather", mine, all, cut.at(over_->rank())));
  note(collective::all_gather, all.bytes);
  if (bytes_of_rank.empty()) {
    return by_->all_gather(bytes_at(mine), bytes_at(all), mine.bytes, nc::uint8);
  }
  vendor_calls calls(*by_);
  for (int root = 0; root < over_->size(); ++root) {
    if (cut.bytes(root) == 0) continue;
    calls.broadcast(bytes_at(mine), bytes_at(cut.in(all, root)), cut.bytes(root), nc::uint8, root);
  }
  calls.end();
}

void library_queue::reduce_scatter(const_view all, mutable_view mine,
                                   std::span<const std::size_t> bytes_of_rank, data_type type,
                                   reduction how) {
  throw_first(check_on(device_, "reduce_scatter", all), check_on(device_, "reduce_scatter", mine),
              check_reduced(*over_, "reduce_scatter", all, type, how),
              check_blocks(*over_, "reduce_scatter", all, mine, bytes_of_rank));
  const blocks cut = blocks_of(all.bytes, bytes_of_rank, over_->size());
  throw_first(check_block_position("reduce_scatter", mine, all, cut.at(over_->rank())));
  note(collective::reduce_scatter, all.bytes, type, how.op);
  const detail::vendor_reduction by(*by_, version_, type, how);
  if (bytes_of_rank.empty()) {
    return by_->reduce_scatter(bytes_at(all), bytes_at(mine), mine.bytes / bytes_of(type), by.type,
                               by.op);
  }
  vendor_calls calls(*by_);
  for (int root = 0; root < over_->size(); ++root) {
    if (cut.bytes(root) == 0) continue;
    calls.reduce(bytes_at(cut.in(all, root)), bytes_at(mine), cut.bytes(root) / bytes_of(type),
                 by.type, by.op, root);
  }
  calls.end();
}

void library_queue::gather(const_view mine, mutable_view all,
                           std::span<const std::size_t> bytes_of_rank, int root) {
  throw_first(check_on(device_, "gather", mine), check_root(*over_, "gather", root));
  if (over_->rank() != root) {
    note(collective::gather, 0, root);
    vendor_calls calls(*by_);
    if (mine.bytes > 0) calls.send(bytes_at(mine), mine.bytes, nc::uint8, root);
    return calls.end();
  }
  throw_first(check_on(device_, "gather", all),
              check_blocks(*over_, "gather", all, mine, bytes_of_rank));
  const blocks cut = blocks_of(all.bytes, bytes_of_rank, over_->size());
  throw_first(check_block_position("gather", mine, all, cut.at(root)));
  note(collective::gather, 0, root);
  vendor_calls calls(*by_);
  for (int from = 0; from < over_->size(); ++from) {
    const mutable_view into = cut.in(all, from);
    if (from == root) {
      if (into.data != mine.data) device_.copy(into.data, mine.data, mine.bytes, stream());
    } else if (into.bytes > 0) {
      calls.recv(bytes_at(into), into.bytes, nc::uint8, from);
    }
  }
  calls.end();
}

void library_queue::scatter(const_view all, mutable_view mine,
                            std::span<const std::size_t> bytes_of_rank, int root) {
  throw_first(check_on(device_, "scatter", mine), check_root(*over_, "scatter", root));
  if (over_->rank() != root) {
    note(collective::scatter, 0, root);
    vendor_calls calls(*by_);
    if (mine.bytes > 0) calls.recv(bytes_at(mine), mine.bytes, nc::uint8, root);
    return calls.end();
  }
  throw_first(check_on(device_, "scatter", all),
              check_blocks(*over_, "scatter", all, mine, bytes_of_rank));
  const blocks cut = blocks_of(all.bytes, bytes_of_rank, over_->size());
  throw_first(check_block_position("scatter", mine, all, cut.at(root)));
  note(collective::scatter, 0, root);
  vendor_calls calls(*by_);
  for (int to = 0; to < over_->size(); ++to) {
    const const_view from = cut.in(all, to);
    if (to == root) {
      if (from.data != mine.data) device_.copy(mine.data, from.data, mine.bytes, stream());
    } else if (from.bytes > 0) {
      calls.send(bytes_at(from), from.bytes, nc::uint8, to);
    }
  }
  calls.end();
}

void library_queue::all_to_all(const_view from, std::span<const std::size_t> sent,
                               mutable_view into, std::span<const std::size_t> received) {
  const char* const call = "all_to_all";
  throw_first(check_on(device_, call, from), check_on(device_, call, into),
              check_separate_views(call, from, into));
  if (sent.empty() != received.empty()) {
    throw error(errc::bad_input, "all_to_all: lengths for one of the two views only");
  }
  if (sent.empty()) {
    throw_first(
        check_result(call, from, into),
        check_equal_blocks(*over_, call, from,
                           from.part(0, from.bytes / static_cast<std::size_t>(over_->size()))));
  } else {
    throw_first(check_lengths(*over_, call, from, sent),
                check_lengths(*over_, call, into, received));
  }
  const blocks out = blocks_of(from.bytes, sent, over_->size());
  const blocks in = blocks_of(into.bytes, received, over_->size());
  const int own = over_->rank();
  if (out.bytes(own) != in.bytes(own)) {
    throw error(errc::bad_input, fmt::format("all_to_all: {} bytes to this rank itself, {} from it",
                                             out.bytes(own), in.bytes(own)));
  }
  note(collective::all_to_all, 0);  // the lengths may differ by rank
  device_.copy(in.in(into, own).data, out.in(from, own).data, out.bytes(own), stream());
  vendor_calls calls(*by_);
  for (int peer = 0; peer < over_->size(); ++peer) {
    if (peer == own) continue;
    if (out.bytes(peer) > 0)
      calls.send(bytes_at(out.in(from, peer)), out.bytes(peer), nc::uint8, peer);
    if (in.bytes(peer) > 0)
      calls.recv(bytes_at(in.in(into, peer)), in.bytes(peer), nc::uint8, peer);
  }
  calls.end();
}

void library_queue::send(const_view message) {
  throw_first(check_on(device_, "send", message));
  note_send(watched_, message.bytes);
  vendor_calls calls(*by_);
  calls.send(bytes_at(message), message.bytes, nc::uint8, by_->peer());
  calls.end();
}

void library_queue::recv(mutable_view into) {
  throw_first(check_on(device_, "recv", into));
  note_receive(watched_, into.bytes);
  vendor_calls calls(*by_);
  calls.recv(bytes_at(into), into.bytes, nc::uint8, by_->peer());
  calls.end();
}

library_queue::batch::batch(const library_queue& any) : by_(any) {
  by_.by_->begin_batch();
}

library_queue::batch::~batch() {
  if (is_over_) return;
  try {
    end();
  } catch (const error&) {  // the calls that were not made are the caller's failure to report
  }
}

void library_queue::batch::end() {
  is_over_ = true;
  by_.by_->end_batch();
}

}  // namespace tandem
