// Posting of work requests, and processing of completions.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tandem/detail/resources.hpp>

#include "protocol/frame.hpp"
#include "transports/rails/verbs/endpoint.hpp"
#include "transports/rails/verbs/status_text.hpp"

namespace tandem::verbs {
namespace {

constexpr int completions_per_poll = 16;

std::size_t total_of(std::span<const iovec> parts) noexcept {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

void copy_parts(std::span<const iovec> parts, std::byte* to, std::size_t bytes) noexcept {
  for (const iovec& part : parts) {
    const std::size_t now = std::min(bytes, part.iov_len);
    if (now > 0) std::memcpy(to, part.iov_base, now);
    to += now;
    bytes -= now;
  }
}

}  // namespace

void endpoint::post_receives() {
  for (receive_queue* const of : {&record_receives_, &update_receives_}) {
    for (std::uint32_t i = 0; i < of->size(); ++i) post_receive(*of, i);
  }
  if (!failure_.empty()) {
    throw error(errc::unreachable, failure_, "compare the device's limits (ibv_devinfo -v)");
  }
}

void endpoint::post_receive(receive_queue& of, std::uint32_t slot) {
  if (const int failure = of.post(slot); failure != 0) {
    fail(fmt::format("{}: ibv_post_recv: {}", on_->text(), detail::errno_text(failure)));
  }
}

std::size_t endpoint::send(std::span<const iovec> parts) {
  if (!failure_.empty() || !credits_) return 0;
  const std::size_t bytes = total_of(parts);
  if (bytes == 0) return 0;
  return bytes <= record_body_bytes_ ? send_record(parts, bytes) : send_chunk(parts, bytes);
}

std::size_t endpoint::send_record(std::span<const iovec> parts, std::size_t bytes) {
  if (!credits_->may_send_record() || !sends_.has_room_for_record()) return 0;
  credits_->record_sent();
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  if (credit_update_bytes + bytes <= data_.inline_bytes()) wr.send_flags = IBV_SEND_INLINE;
  return send_slot(memory_.record_out(sends_.next_record_slot()), parts, bytes, wr, {});
}

std::size_t endpoint::send_chunk(std::span<const iovec> parts, std::size_t bytes) {
  if (!credits_->may_send_chunk() || !sends_.has_room_for_chunk()) return 0;
  const std::uint32_t to = credits_->chunk_sent();
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = htobe32(to);
  wr.wr.rdma.remote_addr =
      remote_info_.chunks_at + std::uint64_t{to} * remote_info_.has.chunk_bytes;
  wr.wr.rdma.rkey = remote_info_.key;
  return send_slot(memory_.chunk_out(sends_.next_chunk_slot()), parts,
                   std::min(bytes, chunk_body_bytes_), wr,
                   {send_queue::payload_kind::chunk, false, 0, 0});
}

/// The completion of the record covers the write before it.
bool endpoint::place(std::span<const std::byte> record, const rails::placement& what) {
  if (!failure_.empty() || !credits_ || record.size() > record_body_bytes_) return false;
  if (!credits_->may_send_record() || !sends_.has_room_for_placement(what.from.bytes)) return false;
  ibv_sge from{reinterpret_cast<std::uint64_t>(what.from.data),
               static_cast<std::uint32_t>(what.from.bytes), what.local_key};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = what.to;
  wr.wr.rdma.rkey = what.remote_key;
  const send_queue::request written{send_queue::payload_kind::bytes, false, 0, from.length};
  if (!post_data(wr, written, false)) return false;
  credits_->record_sent();
  const iovec part{const_cast<std::byte*>(record.data()), record.size()};
  ibv_send_wr head{};
  head.opcode = IBV_WR_SEND;
  if (credit_update_bytes + record.size() <= data_.inline_bytes())
    head.send_flags = IBV_SEND_INLINE;
  // If this fails the lane is lost, and the memory is released once it is quiesced.
  send_slot(memory_.record_out(sends_.next_record_slot()), {&part, 1}, record.size(), head,
            {send_queue::payload_kind::record, true, what.token, 0});
  return true;
}

std::size_t endpoint::send_slot(std::byte* slot, std::span<const iovec> parts, std::size_t bytes,
                                ibv_send_wr& wr, const send_queue::request& what) {
  copy_parts(parts, slot + credit_update_bytes, bytes);
  credit_update update = credits_->next_update();
  update.body_bytes = static_cast<std::uint32_t>(bytes);
  encode(update, std::span<std::byte, credit_update_bytes>(slot, credit_update_bytes));
  ibv_sge from{reinterpret_cast<std::uint64_t>(slot),
               static_cast<std::uint32_t>(credit_update_bytes + bytes), local_mr_->lkey};
  wr.sg_list = &from;
  wr.num_sge = 1;
  return post_data(wr, what, sends_.must_signal(what)) ? bytes : 0;
}

/// @param is_signalled  by a completion, which covers all requests before it
bool endpoint::post_data(ibv_send_wr& wr, const send_queue::request& what, bool is_signalled) {
  wr.wr_id = encode(request_id{request_kind::data_out, 0, sends_.next_number()});
  if (is_signalled) wr.send_flags |= IBV_SEND_SIGNALED;
  if (!post(data_, wr)) return false;
  sends_.posted(what, is_signalled);
  return true;
}

bool endpoint::post(queue_pair& pair, ibv_send_wr& wr) {
  const int failure = pair.post(wr);
  if (failure == 0) return true;
  fail(fmt::format("{}: ibv_post_send: {}", on_->text(), detail::errno_text(failure)));
  return false;
}

/// Only some records are signalled; an empty write completes after all of them.
void endpoint::flush() {
  if (!sends_.needs_flush() || !failure_.empty() || !credits_) return;
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = remote_info_.chunks_at;
  wr.wr.rdma.rkey = remote_info_.key;
  post_data(wr, {}, true);
}

void endpoint::send_due_update() {
  if (!failure_.empty() || !credits_ || !credits_->update_due()) return;
  if (!credits_->may_send_update() || updates_in_flight_ == has_.updates) return;
  post_update();
}

/// Sends an empty record and a credit update.
bool endpoint::send_path_check() {
  send_record({}, 0);
  flush();
  post_update();
  return failure_.empty();
}

void endpoint::post_update() {
  std::byte* const slot = memory_.update_out(updates_out_++ % has_.updates);
  credits_->update_sent();
  encode(credits_->next_update(),
         std::span<std::byte, credit_update_bytes>(slot, credit_update_bytes));
  ibv_sge from{reinterpret_cast<std::uint64_t>(slot), credit_update_bytes, local_mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = encode(request_id{request_kind::update_out, 0, updates_out_});
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  if (post(control_, wr)) ++updates_in_flight_;
}

bool endpoint::poll() {
  ibv_wc completions[completions_per_poll];
  const int count = ibv_poll_cq(cq_.get(), completions_per_poll, completions);
  if (count < 0) fail(fmt::format("{}: its completion queue is broken", on_->text()));
  for (int i = 0; i < count; ++i) on_completion(completions[i]);
  return count > 0;
}

/// In a completion with an error only id, status and queue pair number are valid.
void endpoint::on_completion(const ibv_wc& wc) {
  const request_id id = decode_request_id(wc.wr_id);
  if (id.is_receive()) receives_of(id.what).retire();
  if (id.what == request_kind::data_out) sends_.retire(id.generation);
  if (id.what == request_kind::update_out) --updates_in_flight_;
  if (wc.status != IBV_WC_SUCCESS) {
    failed(id, wc.status);
    return;
  }
  // An update for which the queue was full.
  if (id.what == request_kind::update_out) send_due_update();
  if (!id.is_receive() || !failure_.empty()) return;
  if (!receives_of(id.what).is_current(id)) {
    fail(fmt::format("{}: a completion of a request that was completed before", on_->text()));
  } else if (id.what == request_kind::record_in) {
    on_record(wc, id.slot);
  } else {
    on_update(wc, id.slot);
  }
}

void endpoint::failed(const request_id& id, ibv_wc_status status) {
  if (!failure_.empty()) return;
  const status_text text = text_for(status);
  // For these statuses an asynchronous event may have reported the cause.
  const bool is_cause = status != IBV_WC_WR_FLUSH_ERR && status != IBV_WC_RETRY_EXC_ERR;
  const bool of_data = id.is_of_data_pair();
  fail(fmt::format("{}, {} pair {:#x} to {:#x}, {}: {} ({}); {}", on_->text(),
                   of_data ? "data" : "control", (of_data ? data_ : control_).local().number,
                   of_data ? remote_info_.data_pair : remote_info_.control_pair,
                   id.is_receive() ? "receiving" : "sending", text.what, text.cause, text.advice),
       is_cause);
}

void endpoint::on_record(const ibv_wc& wc, std::uint32_t slot) {
  received_record it;
  it.receive = slot;
  it.is_chunk = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  const std::byte* from = memory_.record_in(slot);
  if (it.is_chunk) {
    const std::uint32_t to = be32toh(wc.imm_data);
    if (!credits_ || !credits_->chunk_arrived(to) || wc.byte_len > has_.chunk_bytes) {
      fail(fmt::format("the peer reports {} bytes written into slot {}, which is out of turn",
                       wc.byte_len, to));
      return;
    }
    from = memory_.chunk_in(to);
  }
  if (!apply_update({from, wc.byte_len},
                    wc.byte_len - static_cast<std::uint32_t>(credit_update_bytes)))
    return;
  it.bytes = {from + credit_update_bytes, wc.byte_len - credit_update_bytes};
  data_path_works_ = true;
  received_bytes_ += wc.byte_len;
  arrived_.push(it);
}

void endpoint::on_update(const ibv_wc& wc, std::uint32_t slot) {
  if (wc.byte_len != credit_update_bytes ||
      !apply_update({memory_.update_in(slot), credit_update_bytes}, 0)) {
    fail("the peer sent an invalid credit update");
    return;
  }
  control_path_works_ = true;
  received_bytes_ += credit_update_bytes;
  credits_->update_taken();
  post_receive(update_receives_, slot);
  send_due_update();
}

bool endpoint::apply_update(std::span<const std::byte> record, std::uint32_t body_bytes) {
  if (record.size() < credit_update_bytes || !credits_) {
    fail("the peer sent a record without a credit update");
    return false;
  }
  const credit_update update = decode(record.first<credit_update_bytes>());
  if (update.body_bytes != body_bytes) {
    fail(fmt::format("the peer announced {} bytes and sent {}", update.body_bytes, body_bytes));
    return false;
  }
  if (!credits_->apply_update(update)) {
    fail("the peer returned credits that were never used");
    return false;
  }
  return true;
}

void endpoint::release_front() {
  const received_record& it = front();
  if (it.is_chunk) {
    credits_->chunk_taken();
  } else {
    credits_->record_taken();
  }
  const std::uint32_t slot = it.receive;
  arrived_.pop();
  post_receive(record_receives_, slot);
  send_due_update();
}

}  // namespace tandem::verbs
