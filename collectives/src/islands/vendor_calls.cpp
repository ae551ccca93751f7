#include <utility>

#include "islands/vendor_group.hpp"

namespace tandem::detail {

vendor_calls::vendor_calls(const vendor_group& by) : by_(by), on_(by.device_) {
  by_.throw_if_failed();
  by_.check_status(by_.lib_.group_start(), "ncclGroupStart");
}

vendor_calls::~vendor_calls() {
  if (!ended_) by_.lib_.group_end();
}

void vendor_calls::end() {
  ended_ = true;
  by_.check_status(by_.lib_.group_end(), "ncclGroupEnd");
}

/// On ranks where the library ignores one of the addresses it is passed the other one, as in place.
void vendor_calls::reduce(const std::byte* from, std::byte* into, std::size_t count, int type,
                          int op, int root) {
  if (by_.rank_ != root) into = const_cast<std::byte*>(from);
  by_.check_status(by_.lib_.reduce(from, into, count, type, op, root, by_.comm_, by_.stream()),
                   "ncclReduce");
}

void vendor_calls::broadcast(const std::byte* from, std::byte* into, std::size_t count, int type,
                             int root) {
  if (by_.rank_ != root) from = into;
  by_.check_status(by_.lib_.broadcast(from, into, count, type, root, by_.comm_, by_.stream()),
                   "ncclBroadcast");
}

void vendor_calls::send(const std::byte* from, std::size_t count, int type, int to) {
  by_.check_status(by_.lib_.send(from, count, type, to, by_.comm_, by_.stream()), "ncclSend");
}

void vendor_calls::recv(std::byte* into, std::size_t count, int type, int from) {
  by_.check_status(by_.lib_.recv(into, count, type, from, by_.comm_, by_.stream()), "ncclRecv");
}

void vendor_group::begin_batch() const {
  const device_guard on(device_);
  check_status(lib_.group_start(), "ncclGroupStart");
}

void vendor_group::end_batch() const {
  const device_guard on(device_);
  check_status(lib_.group_end(), "ncclGroupEnd");
}

void vendor_group::reduce_segments(const std::byte* from, std::byte* into, std::size_t count,
                                   std::size_t element_bytes, int leader_count, int type, int op) {
  if (leader_count == size_ && count % static_cast<std::size_t>(size_) == 0) {
    reduce_scatter(from, into, count / static_cast<std::size_t>(size_), type, op);
    return;
  }
  vendor_calls calls(*this);
  for (int k = 0; k < leader_count; ++k) {
    const segment s = segment_of(count, leader_count, k);
    calls.reduce(from + s.first * element_bytes, into, s.count, type, op, k);
  }
  calls.end();
}

void vendor_group::broadcast_segments(std::byte* data, std::size_t count, std::size_t element_bytes,
                                      int leader_count, int type) {
  if (leader_count == size_ && count % static_cast<std::size_t>(size_) == 0) {
    const std::size_t each = count / static_cast<std::size_t>(size_);
    all_gather(data + static_cast<std::size_t>(rank_) * each * element_bytes, data, each, type);
    return;
  }
  vendor_calls calls(*this);
  for (int k = 0; k < leader_count; ++k) {
    const segment s = segment_of(count, leader_count, k);
    std::byte* const at = data + s.first * element_bytes;
    calls.broadcast(at, at, s.count, type, k);
  }
  calls.end();
}

void vendor_group::scatter_segments(std::byte* data, std::size_t count, std::size_t element_bytes,
                                    int leader_count, int type, int root) {
  vendor_calls calls(*this);
  for (int k = 0; k < leader_count; ++k) {
    const segment s = segment_of(count, leader_count, k);
    if (k == root || s.count == 0) continue;
    std::byte* const at = data + s.first * element_bytes;
    if (rank_ == root) calls.send(at, s.count, type, k);
    if (rank_ == k) calls.recv(at, s.count, type, root);
  }
  calls.end();
}

void vendor_group::collect_segments(const std::byte* part, std::byte* data, std::size_t count,
                                    std::size_t element_bytes, int leader_count, int type,
                                    int root) {
  vendor_calls calls(*this);
  for (int k = 0; k < leader_count; ++k) {
    const segment s = segment_of(count, leader_count, k);
    if (k == root || s.count == 0) continue;
    if (rank_ == root) calls.recv(data + s.first * element_bytes, s.count, type, k);
    if (rank_ == k) calls.send(part, s.count, type, root);
  }
  calls.end();
}

void vendor_group::all_reduce(const std::byte* data, std::byte* result, std::size_t count, int type,
                              int op) {
  throw_if_failed();
  const device_guard on(device_);
  check_status(lib_.all_reduce(data, result, count, type, op, comm_, stream()), "ncclAllReduce");
}

void vendor_group::reduce_scatter(const std::byte* all, std::byte* mine, std::size_t count,
                                  int type, int op) {
  throw_if_failed();
  const device_guard on(device_);
  check_status(lib_.reduce_scatter(all, mine, count, type, op, comm_, stream()),
               "ncclReduceScatter");
}

void vendor_group::all_gather(const std::byte* mine, std::byte* all, std::size_t count, int type) {
  throw_if_failed();
  const device_guard on(device_);
  check_status(lib_.all_gather(mine, all, count, type, comm_, stream()), "ncclAllGather");
}

}  // namespace tandem::detail
