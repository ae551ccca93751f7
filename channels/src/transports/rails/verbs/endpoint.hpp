#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transports/rails/nic/lane_connection.hpp"
#include "transports/rails/verbs/adapter.hpp"
#include "transports/rails/verbs/qp_info.hpp"
#include "transports/rails/verbs/queue_pair.hpp"
#include "transports/rails/verbs/receive_queue.hpp"
#include "transports/rails/verbs/send_queue.hpp"
#include "transports/rails/verbs/slab.hpp"

namespace tandem::verbs {

/// The two queue pairs of one lane, their completion queue and their registered memory. The data
/// pair carries records (SEND) and chunks (WRITE with immediate data, into a slot of the peer) in
/// order; the control pair carries credit updates, which must not wait behind them. Flow control is
/// that of `credits`; the CPU copies into and out of the slots. A placement (WRITE, then the SEND
/// of its head) goes from a registered view into a view granted by the peer, without CPU copies.
class endpoint {
 public:
  /// Creates everything and posts the receives. @par Errors `errc::unreachable`: the call and the
  /// reason; `limit_exceeded`: memory that may not be locked, and how to allow it.
  endpoint(std::shared_ptr<adapter> on, const queue_depths& wanted);
  /// The NIC does not access its memory afterwards.
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  const qp_info& local_info() const noexcept { return local_info_; }
  const adapter& on() const noexcept { return *on_; }
  const std::shared_ptr<adapter>& shared_adapter() const noexcept { return on_; }
  /// Moves both queue pairs to RTR and RTS.
  void connect(const qp_info& remote_info);

  /// Sends on both queue pairs, to check the path; false on failure.
  bool send_path_check();
  /// The peer's sends were received, and its NIC has acknowledged ours.
  bool path_works() const noexcept {
    return data_path_works_ && control_path_works_ && is_drained();
  }

  // Sending.
  /// Copies and posts the beginning of the parts as one record or chunk. @return the bytes; 0: no
  /// credit or no slot now.
  std::size_t send(std::span<const iovec> parts);
  /// Posts an RDMA write into the peer's memory and then the SEND of a record; false: no credit, or
  /// the send queue is full. When the record is received, the bytes are in place: requests of a
  /// queue pair complete in order, relaxed ordering or not, and so do their packets.
  bool place(std::span<const std::byte> record, const rails::placement& what);
  std::size_t max_placed_bytes() const noexcept { return max_placed_bytes_; }
  /// Tokens of completed placements, whose memory the NIC no longer reads, since the last call.
  std::vector<std::uint64_t>& ended_placements() noexcept { return sends_.ended_placements(); }
  /// A registration of memory, for one message where needed; null: none.
  std::shared_ptr<const rails::registered_memory> registration_for(mutable_view what, bool by_peer);
  /// True for memory in a registered region.
  bool is_zero_copy(const const_view& what) { return on_->memory().is_zero_copy(what); }
  /// All posted sends have completed: the peer's NIC has acknowledged them.
  bool is_drained() const noexcept { return sends_.is_empty() && updates_in_flight_ == 0; }

  /// Posts a signalled request, whose completion covers all requests before it.
  void flush();

  // Receiving.
  /// Polls the completion queue; true where there was a completion. After a failure nothing more
  /// is received.
  bool poll();
  bool any_arrived() const noexcept { return arrived_.any(); }
  const received_record& front() const noexcept { return arrived_.front(); }
  /// The front was read: posts its receive again, and returns the credit in time.
  void release_front();
  std::uint64_t received_bytes() const noexcept { return received_bytes_; }
  /// Why the lane has failed; empty: it has not.
  const std::string& failure() const noexcept { return failure_; }
  /// @param is_cause  false: a consequence of another failure, whose cause may still be reported
  void fail(std::string why, bool is_cause = true);
  bool knows_cause() const noexcept { return knows_cause_; }

  // Waiting.
  int descriptor() const noexcept { return channel_->fd; }
  /// The next completion makes `descriptor` readable. Call `poll` once more before waiting.
  void arm();
  void take_events() noexcept;

  /// Moves both queue pairs to the error state: posted requests are flushed.
  void stop() noexcept;
  /// Drops requests that the device has not flushed; nothing is transferred any more.
  void destroy_queue_pairs() noexcept;
  /// Every posted request has completed or was flushed.
  bool is_quiesced() const noexcept {
    return record_receives_.is_empty() && update_receives_.is_empty() && is_drained();
  }
  bool owns(const ibv_qp* pair) const noexcept {
    return pair == data_.get() || pair == control_.get();
  }

 private:
  void make_queue_pairs();
  void post_receives();
  void post_receive(receive_queue& of, std::uint32_t slot);
  receive_queue& receives_of(request_kind what) noexcept {
    return what == request_kind::record_in ? record_receives_ : update_receives_;
  }
  std::size_t send_record(std::span<const iovec> parts, std::size_t bytes);
  std::size_t send_chunk(std::span<const iovec> parts, std::size_t bytes);
  std::size_t send_slot(std::byte* slot, std::span<const iovec> parts, std::size_t bytes,
                        ibv_send_wr& wr, const send_queue::request& what);
  bool post_data(ibv_send_wr& wr, const send_queue::request& what, bool is_signalled);
  bool post(queue_pair& pair, ibv_send_wr& wr);
  void send_due_update();
  void post_update();
  void on_completion(const ibv_wc& wc);
  void on_record(const ibv_wc& wc, std::uint32_t slot);
  void on_update(const ibv_wc& wc, std::uint32_t slot);
  bool apply_update(std::span<const std::byte> record, std::uint32_t body_bytes);
  void failed(const request_id& id, ibv_wc_status status);

  const std::shared_ptr<adapter> on_;
  const queue_depths has_;
  slab memory_;
  owned_channel channel_;
  owned_cq cq_;
  owned_mr local_mr_, chunks_mr_;
  queue_pair data_, control_;
  qp_info local_info_, remote_info_;
  std::optional<credits> credits_;
  std::size_t record_body_bytes_ = 0, chunk_body_bytes_ = 0;
  std::size_t max_placed_bytes_ = 0;

  send_queue sends_;               // of the data pair
  std::uint32_t updates_out_ = 0;  // of the control pair, ever
  std::uint32_t updates_in_flight_ = 0;
  receive_queue record_receives_, update_receives_;  // of the data and the control pair
  received_records arrived_;
  std::uint64_t received_bytes_ = 0;
  unsigned unacked_events_ = 0;
  bool data_path_works_ = false, control_path_works_ = false;
  std::string failure_;
  bool knows_cause_ = false;
};

}  // namespace tandem::verbs
