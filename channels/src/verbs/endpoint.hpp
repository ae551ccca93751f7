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

#include "rails/wire.hpp"
#include "verbs/adapter.hpp"
#include "verbs/card.hpp"
#include "verbs/slab.hpp"

namespace tandem::verbs {

/// The two queue pairs of one lane, their completion queue and their registered memory. The data
/// pair carries records (SEND) and chunks (WRITE with immediate data, into a slot of the peer) in
/// order; the control pair carries credit updates, which must not wait behind them. Flow control is
/// that of `credits`; the CPU copies into and out of the slots. A placement (WRITE, then the SEND
/// of its head) goes from a registered view into a view granted by the peer, without CPU copies.
class endpoint {
 public:
  /// Received bytes, valid until `release_front`.
  struct arrival {
    std::span<const std::byte> bytes;
    std::uint32_t receive = 0;  ///< the posted receive that it consumed
    bool is_chunk = false;
  };

  /// Creates everything and posts the receives. @par Errors `errc::unreachable`: the call and the
  /// reason; `limit_exceeded`: memory that may not be locked, and how to allow it.
  endpoint(std::shared_ptr<adapter> on, const room& wanted);
  /// The NIC does not access its memory afterwards.
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  const card& mine() const noexcept { return mine_; }
  const adapter& on() const noexcept { return *on_; }
  const std::shared_ptr<adapter>& shared_adapter() const noexcept { return on_; }
  /// Moves both queue pairs to RTR and RTS.
  void connect(const card& theirs);

  /// Sends on both queue pairs, to check the path; false on failure.
  bool greet();
  /// The peer's sends were received, and its NIC has acknowledged ours.
  bool is_greeted() const noexcept { return greeted_records_ && greeted_words_ && is_drained(); }

  // Sending.
  /// Copies and posts the beginning of the parts as one record or chunk. @return the bytes; 0: no
  /// credit or no slot now.
  std::size_t send(std::span<const iovec> parts);
  /// Posts an RDMA write into the peer's memory and then the SEND of a record; false: no credit, or
  /// the send queue is full. When the record is received, the bytes are in place: requests of a
  /// queue pair complete in order, relaxed ordering or not, and so do their packets.
  bool place(std::span<const std::byte> record, const rails::placement& what);
  std::size_t most_placed_bytes() const noexcept { return most_placed_bytes_; }
  /// Tokens of completed placements, whose memory the NIC no longer reads, since the last call.
  std::vector<std::uint64_t>& ended_placements() noexcept { return ended_; }
  /// A registration of memory, for one message where needed; null: none.
  std::shared_ptr<const rails::reached_memory> reach(mutable_view what, bool by_peer);
  /// True for memory in a registered region.
  bool reaches(const const_view& what) { return on_->memory().reaches(what); }
  /// All posted sends have completed: the peer's NIC has acknowledged them.
  bool is_drained() const noexcept { return left_ == posted_ && words_underway_ == 0; }

  /// Posts a signalled request, whose completion covers all requests before it.
  void flush();

  // Receiving.
  /// Polls the completion queue; true where there was a completion. After a failure nothing more
  /// is received.
  bool poll();
  bool any_arrived() const noexcept { return arrived_count_ > 0; }
  const arrival& front() const noexcept { return arrived_[arrived_first_]; }
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
  void destroy_pairs() noexcept;
  /// Every posted request has completed or was flushed.
  bool is_quiet() const noexcept { return receives_underway_ == 0 && is_drained(); }
  bool owns(const ibv_qp* pair) const noexcept {
    return pair == data_.get() || pair == control_.get();
  }

 private:
  enum class kind : std::uint8_t { record_in, word_in, data_out, word_out };
  enum class load : std::uint8_t { record, chunk, bytes };
  struct posted {
    load of = load::record;
    bool ends_placement = false;
    std::uint64_t token = 0;
    std::uint32_t bytes = 0;  // of a placement
  };

  void make_pairs();
  owned_qp make_pair(std::uint32_t sends, std::uint32_t receives, std::uint32_t inline_bytes);
  void post_receives();
  void to_init(ibv_qp* pair, unsigned access);
  void to_ready(ibv_qp* pair, std::uint32_t their_pair, std::uint32_t their_psn,
                std::uint32_t my_psn);
  void post_record_receive(std::uint32_t slot);
  void post_word_receive(std::uint32_t slot);
  void post_receive(ibv_qp* pair, kind what, std::uint32_t slot, ibv_sge into);
  std::size_t send_record(std::span<const iovec> parts, std::size_t bytes);
  std::size_t send_chunk(std::span<const iovec> parts, std::size_t bytes);
  std::size_t send_slot(std::byte* slot, std::span<const iovec> parts, std::size_t bytes,
                        ibv_send_wr& wr, const posted& what);
  bool post_data(ibv_send_wr& wr, const posted& what, bool is_told);
  bool post(ibv_qp* pair, ibv_send_wr& wr);
  bool may_place(std::size_t bytes) const noexcept;
  void say_word();
  void post_word();
  void came(const ibv_wc& wc);
  void came_record(const ibv_wc& wc, std::uint32_t slot);
  void came_word(const ibv_wc& wc, std::uint32_t slot);
  bool hear(std::span<const std::byte> record, std::uint32_t body_bytes);
  void left(std::uint32_t number);
  std::uint32_t& underway(load of) noexcept;
  void failed(kind what, ibv_wc_status status);

  const std::shared_ptr<adapter> on_;
  const room has_;
  slab memory_;
  owned_channel channel_;
  owned_cq cq_;
  owned_mr local_, chunks_;
  owned_qp data_, control_;
  card mine_, theirs_;
  std::optional<credits> credits_;
  std::size_t record_body_bytes_ = 0, chunk_body_bytes_ = 0;
  std::uint32_t inline_bytes_ = 0;

  std::uint32_t posted_ = 0, left_ = 0;  // on the data pair, ever
  std::vector<posted> outgoing_;         // posted and not yet completed, by number
  std::vector<std::uint64_t> ended_;     // tokens of completed placements
  std::size_t most_placed_bytes_ = 0;
  std::uint32_t unsignalled_ = 0;
  std::uint32_t records_out_ = 0, chunks_out_ = 0, words_out_ = 0;  // ever
  std::uint32_t records_underway_ = 0, chunks_underway_ = 0, words_underway_ = 0;
  std::uint32_t placed_underway_ = 0;
  std::uint64_t placed_bytes_underway_ = 0;
  std::uint32_t receives_underway_ = 0;
  std::vector<std::uint32_t> generations_;  // of the receives, records before credit updates
  std::vector<arrival> arrived_;            // a ring with an entry for each receive
  std::size_t arrived_first_ = 0, arrived_count_ = 0;
  std::uint64_t received_bytes_ = 0;
  unsigned unacked_events_ = 0;
  bool greeted_records_ = false, greeted_words_ = false;
  std::string failure_;
  bool knows_cause_ = false;
};

}  // namespace tandem::verbs
