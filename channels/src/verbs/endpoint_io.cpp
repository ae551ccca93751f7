// Posting of work requests, and processing of completions.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "protocol/frame.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/words.hpp"

namespace tandem::verbs {
namespace {

/// Maximum number of unsignalled sends in a row: the entries of a send queue are freed only by a
/// later signalled completion.
constexpr std::uint32_t most_unsignalled = 8;
constexpr int completions_per_look = 16;

/// The work request id: the kind of request, its slot, and how often that was posted.
std::uint64_t request_id(std::uint8_t what, std::uint32_t slot, std::uint32_t generation) noexcept {
  return std::uint64_t{what} << 56 | std::uint64_t{slot & 0xffffff} << 32 | generation;
}

std::size_t total_of(std::span<const iovec> parts) noexcept {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

void gather(std::span<const iovec> parts, std::byte* to, std::size_t bytes) noexcept {
  for (const iovec& part : parts) {
    const std::size_t now = std::min(bytes, part.iov_len);
    if (now > 0) std::memcpy(to, part.iov_base, now);
    to += now;
    bytes -= now;
  }
}

}  // namespace

void endpoint::post_receives() {
  for (std::uint32_t i = 0; i < has_.records; ++i) post_record_receive(i);
  for (std::uint32_t i = 0; i < has_.words; ++i) post_word_receive(i);
  if (!failure_.empty()) {
    throw error(errc::unreachable, failure_, "compare the device's limits (ibv_devinfo -v)");
  }
}

void endpoint::post_record_receive(std::uint32_t slot) {
  post_receive(
      data_.get(), kind::record_in, slot,
      {reinterpret_cast<std::uint64_t>(memory_.record_in(slot)), has_.record_bytes, local_->lkey});
}

void endpoint::post_word_receive(std::uint32_t slot) {
  post_receive(control_.get(), kind::word_in, slot,
               {reinterpret_cast<std::uint64_t>(memory_.word_in(slot)), word_bytes, local_->lkey});
}

void endpoint::post_receive(ibv_qp* pair, kind what, std::uint32_t slot, ibv_sge into) {
  const std::uint32_t index = what == kind::record_in ? slot : has_.records + slot;
  ibv_recv_wr wr{};
  wr.wr_id = request_id(static_cast<std::uint8_t>(what), slot, ++generations_[index]);
  wr.sg_list = &into;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (const int failure = ibv_post_recv(pair, &wr, &bad); failure != 0) {
    fail(fmt::format("{}: ibv_post_recv: {}", on_->text(), std::strerror(failure)));
    return;
  }
  ++receives_underway_;
}

std::size_t endpoint::send(std::span<const iovec> parts) {
  if (!failure_.empty() || !credits_) return 0;
  const std::size_t bytes = total_of(parts);
  if (bytes == 0) return 0;
  return bytes <= record_body_bytes_ ? send_record(parts, bytes) : send_chunk(parts, bytes);
}

std::size_t endpoint::send_record(std::span<const iovec> parts, std::size_t bytes) {
  if (!credits_->may_send_record() || records_underway_ == has_.records) return 0;
  credits_->record_sent();
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  if (word_bytes + bytes <= inline_bytes_) wr.send_flags = IBV_SEND_INLINE;
  return send_slot(memory_.record_out(records_out_++ % has_.records), parts, bytes, wr, {});
}

std::size_t endpoint::send_chunk(std::span<const iovec> parts, std::size_t bytes) {
  if (!credits_->may_send_chunk() || chunks_underway_ == has_.chunks) return 0;
  const std::uint32_t to = credits_->chunk_sent();
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = htobe32(to);
  wr.wr.rdma.remote_addr = theirs_.chunks_at + std::uint64_t{to} * theirs_.has.chunk_bytes;
  wr.wr.rdma.rkey = theirs_.key;
  return send_slot(memory_.chunk_out(chunks_out_++ % has_.chunks), parts,
                   std::min(bytes, chunk_body_bytes_), wr, {load::chunk, false, 0, 0});
}

/// The completion of the record covers the write before it.
bool endpoint::place(std::span<const std::byte> record, const rails::placement& what) {
  if (!failure_.empty() || !credits_ || record.size() > record_body_bytes_) return false;
  if (!may_place(what.from.bytes)) return false;
  ibv_sge from{reinterpret_cast<std::uint64_t>(what.from.data),
               static_cast<std::uint32_t>(what.from.bytes), what.local_key};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = what.to;
  wr.wr.rdma.rkey = what.peer_key;
  const posted written{load::bytes, false, 0, from.length};
  if (!post_data(wr, written, false)) return false;
  placed_bytes_underway_ += from.length;
  credits_->record_sent();
  const iovec part{const_cast<std::byte*>(record.data()), record.size()};
  ibv_send_wr head{};
  head.opcode = IBV_WR_SEND;
  if (word_bytes + record.size() <= inline_bytes_) head.send_flags = IBV_SEND_INLINE;
  // If this fails the lane is lost, and the memory is released once it is quiesced.
  send_slot(memory_.record_out(records_out_++ % has_.records), {&part, 1}, record.size(), head,
            {load::record, true, what.token, 0});
  return true;
}

/// Limited to the bytes of the slots, but at least one placement: urgent data waits behind it.
bool endpoint::may_place(std::size_t bytes) const noexcept {
  const std::uint64_t most = std::uint64_t{has_.chunks} * has_.chunk_bytes;
  return credits_->may_send_record() && records_underway_ < has_.records &&
         placed_underway_ < has_.chunks &&
         (placed_underway_ == 0 || placed_bytes_underway_ + bytes <= most);
}

std::uint32_t& endpoint::underway(load of) noexcept {
  if (of == load::record) return records_underway_;
  return of == load::chunk ? chunks_underway_ : placed_underway_;
}

std::size_t endpoint::send_slot(std::byte* slot, std::span<const iovec> parts, std::size_t bytes,
                                ibv_send_wr& wr, const posted& what) {
  gather(parts, slot + word_bytes, bytes);
  word said = credits_->say();
  said.body_bytes = static_cast<std::uint32_t>(bytes);
  encode(said, std::span<std::byte, word_bytes>(slot, word_bytes));
  ibv_sge from{reinterpret_cast<std::uint64_t>(slot),
               static_cast<std::uint32_t>(word_bytes + bytes), local_->lkey};
  wr.sg_list = &from;
  wr.num_sge = 1;
  const bool is_told =
      what.of == load::chunk || what.ends_placement || unsignalled_ + 1 >= most_unsignalled;
  return post_data(wr, what, is_told) ? bytes : 0;
}

/// @param is_told  by a completion, which covers all requests before it
bool endpoint::post_data(ibv_send_wr& wr, const posted& what, bool is_told) {
  wr.wr_id = request_id(static_cast<std::uint8_t>(kind::data_out), 0, posted_ + 1);
  if (is_told) wr.send_flags |= IBV_SEND_SIGNALED;
  if (!post(data_.get(), wr)) return false;
  ++posted_;
  outgoing_[posted_ % outgoing_.size()] = what;
  ++underway(what.of);
  unsignalled_ = is_told ? 0 : unsignalled_ + 1;
  return true;
}

bool endpoint::post(ibv_qp* pair, ibv_send_wr& wr) {
  ibv_send_wr* bad = nullptr;
  const int failure = ibv_post_send(pair, &wr, &bad);
  if (failure == 0) return true;
  fail(fmt::format("{}: ibv_post_send: {}", on_->text(), std::strerror(failure)));
  return false;
}

/// Only some records are signalled; an empty write completes after all of them.
void endpoint::flush() {
  if (unsignalled_ == 0 || !failure_.empty() || !credits_) return;
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = theirs_.chunks_at;
  wr.wr.rdma.rkey = theirs_.key;
  post_data(wr, {}, true);
}

void endpoint::say_word() {
  if (!failure_.empty() || !credits_ || !credits_->owes_word()) return;
  if (!credits_->may_send_word() || words_underway_ == has_.words) return;
  post_word();
}

/// Sends an empty record and a credit update.
bool endpoint::greet() {
  send_record({}, 0);
  flush();
  post_word();
  return failure_.empty();
}

void endpoint::post_word() {
  std::byte* const slot = memory_.word_out(words_out_++ % has_.words);
  credits_->word_sent();
  encode(credits_->say(), std::span<std::byte, word_bytes>(slot, word_bytes));
  ibv_sge from{reinterpret_cast<std::uint64_t>(slot), word_bytes, local_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = request_id(static_cast<std::uint8_t>(kind::word_out), 0, words_out_);
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  if (post(control_.get(), wr)) ++words_underway_;
}

bool endpoint::poll() {
  ibv_wc came_now[completions_per_look];
  const int count = ibv_poll_cq(cq_.get(), completions_per_look, came_now);
  if (count < 0) fail(fmt::format("{}: its completion queue is broken", on_->text()));
  for (int i = 0; i < count; ++i) came(came_now[i]);
  return count > 0;
}

/// In a completion with an error only id, status and queue pair number are valid.
void endpoint::came(const ibv_wc& wc) {
  const auto what = static_cast<kind>(wc.wr_id >> 56);
  const auto slot = static_cast<std::uint32_t>(wc.wr_id >> 32 & 0xffffff);
  const auto generation = static_cast<std::uint32_t>(wc.wr_id);
  const bool is_receive = what == kind::record_in || what == kind::word_in;
  if (is_receive) --receives_underway_;
  if (what == kind::data_out) left(generation);
  if (what == kind::word_out) --words_underway_;
  if (wc.status != IBV_WC_SUCCESS) {
    failed(what, wc.status);
    return;
  }
  if (what == kind::word_out) say_word();  // an update for which the queue was full
  if (!is_receive || !failure_.empty()) return;
  const std::uint32_t index = what == kind::record_in ? slot : has_.records + slot;
  if (index >= generations_.size() || generations_[index] != generation) {
    fail(fmt::format("{}: a completion of a request that was completed before", on_->text()));
  } else if (what == kind::record_in) {
    came_record(wc, slot);
  } else {
    came_word(wc, slot);
  }
}

void endpoint::failed(kind what, ibv_wc_status status) {
  if (!failure_.empty()) return;
  const status_words text = words_for(status);
  // For these statuses an asynchronous event may have reported the cause.
  const bool is_cause = status != IBV_WC_WR_FLUSH_ERR && status != IBV_WC_RETRY_EXC_ERR;
  const bool of_data = what == kind::record_in || what == kind::data_out;
  const bool receives = what == kind::record_in || what == kind::word_in;
  fail(fmt::format("{}, {} pair {:#x} to {:#x}, {}: {} ({}); {}", on_->text(),
                   of_data ? "data" : "control", (of_data ? data_ : control_)->qp_num,
                   of_data ? theirs_.data_pair : theirs_.control_pair,
                   receives ? "receiving" : "sending", text.what, text.cause, text.advice),
       is_cause);
}

void endpoint::came_record(const ibv_wc& wc, std::uint32_t slot) {
  arrival it;
  it.receive = slot;
  it.is_chunk = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  const std::byte* from = memory_.record_in(slot);
  if (it.is_chunk) {
    const std::uint32_t to = be32toh(wc.imm_data);
    if (!credits_ || !credits_->chunk_came(to) || wc.byte_len > has_.chunk_bytes) {
      fail(fmt::format("the peer reports {} bytes written into slot {}, which is out of turn",
                       wc.byte_len, to));
      return;
    }
    from = memory_.chunk_in(to);
  }
  if (!hear({from, wc.byte_len}, wc.byte_len - static_cast<std::uint32_t>(word_bytes))) return;
  it.bytes = {from + word_bytes, wc.byte_len - word_bytes};
  greeted_records_ = true;
  received_bytes_ += wc.byte_len;
  arrived_[(arrived_first_ + arrived_count_++) % arrived_.size()] = it;
}

void endpoint::came_word(const ibv_wc& wc, std::uint32_t slot) {
  if (wc.byte_len != word_bytes || !hear({memory_.word_in(slot), word_bytes}, 0)) {
    fail("the peer sent an invalid credit update");
    return;
  }
  greeted_words_ = true;
  received_bytes_ += word_bytes;
  credits_->word_taken();
  post_word_receive(slot);
  say_word();
}

bool endpoint::hear(std::span<const std::byte> record, std::uint32_t body_bytes) {
  if (record.size() < word_bytes || !credits_) {
    fail("the peer sent a record without a credit update");
    return false;
  }
  const word said = decode(record.first<word_bytes>());
  if (said.body_bytes != body_bytes) {
    fail(
        fmt::format("the peer announced {} bytes and sent {}", said.body_bytes, body_bytes));
    return false;
  }
  if (!credits_->hear(said)) {
    fail("the peer returned credits that were never used");
    return false;
  }
  return true;
}

void endpoint::left(std::uint32_t number) {
  while (static_cast<std::int32_t>(number - left_) > 0) {
    ++left_;
    const posted& what = outgoing_[left_ % outgoing_.size()];
    --underway(what.of);
    placed_bytes_underway_ -= what.bytes;
    if (what.ends_placement) ended_.push_back(what.token);
  }
}

void endpoint::release_front() {
  const arrival& it = front();
  if (it.is_chunk) {
    credits_->chunk_taken();
  } else {
    credits_->record_taken();
  }
  const std::uint32_t slot = it.receive;
  arrived_first_ = (arrived_first_ + 1) % arrived_.size();
  --arrived_count_;
  post_record_receive(slot);
  say_word();
}

}  // namespace tandem::verbs
