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

/// The two queue pairs of one lane, their completion queue and their registered memory: the data
/// pair carries records (SEND) and chunks (WRITE with immediate data, into a slot of the peer) in
/// one order, the control pair words that must not wait behind them. Carries out `credits`; the
/// processor copies into and out of the slots. What is placed (WRITE, then the SEND of its head)
/// goes from a registered view into one that the peer has lent, without a processor.
class endpoint {
 public:
  /// What has come: bytes that stay where they are until `release`.
  struct arrival {
    std::span<const std::byte> bytes;
    std::uint32_t receive = 0;  ///< the posted receive that it took
    bool is_chunk = false;
  };

  /// Makes everything and posts the receives. @par Errors `errc::unreachable`: which call, why;
  /// `limit_exceeded`: memory that may not be locked, and how to allow it.
  endpoint(std::shared_ptr<adapter> on, const room& wanted);
  /// Nothing of it can be touched by the NIC afterwards.
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  const card& mine() const noexcept { return mine_; }
  const adapter& on() const noexcept { return *on_; }
  const std::shared_ptr<adapter>& shared_adapter() const noexcept { return on_; }
  /// Towards the peer, ready to receive and to send.
  void connect(const card& theirs);

  /// Says something on both pairs; false where it cannot.
  bool greet();
  /// The peer has done so, and its NIC has said that it has ours.
  bool is_greeted() const noexcept { return greeted_records_ && greeted_words_ && is_drained(); }

  // Sending.
  /// Copies and posts the beginning of the parts, as one record or chunk; how many bytes. 0: no
  /// credit or no slot now.
  std::size_t send(std::span<const iovec> parts);
  /// Has the NIC write the bytes into the peer's memory and then send a record; false: no credit or
  /// no place in the queue now. Whoever receives the record finds the bytes in place: requests of a
  /// queue pair end in their order, relaxed ordering or not, and so do their packets.
  bool place(std::span<const std::byte> record, const rails::placement& what);
  std::size_t most_placed_bytes() const noexcept { return most_placed_bytes_; }
  /// Placements whose memory the NIC reads no more, by their tokens, since the last time.
  std::vector<std::uint64_t>& ended_placements() noexcept { return ended_; }
  /// Of memory that is registered for one message; null: not now.
  std::shared_ptr<const rails::reached_memory> reach(mutable_view what, bool by_peer);
  /// Of memory that is registered anyhow.
  bool reaches(const const_view& what) { return on_->memory().reaches(what); }
  /// All that was posted has left: the peer's NIC has it.
  bool is_drained() const noexcept { return left_ == posted_ && words_underway_ == 0; }

  /// Posts what tells when all before it has left.
  void flush();

  // Receiving.
  /// Takes what is complete; true where there was something. After a failure nothing more comes.
  bool poll();
  bool any_arrived() const noexcept { return arrived_count_ > 0; }
  const arrival& front() const noexcept { return arrived_[arrived_first_]; }
  /// The front is read: its receive is posted again, and the peer hears of it in time.
  void release_front();
  std::uint64_t received_bytes() const noexcept { return received_bytes_; }
  /// Why the lane is at its end; empty: it is not.
  const std::string& failure() const noexcept { return failure_; }
  /// @param is_cause  false: of what follows from a failure; its cause may still be told
  void fail(std::string why, bool is_cause = true);
  bool knows_cause() const noexcept { return knows_cause_; }

  // Sleeping.
  int descriptor() const noexcept { return channel_->fd; }
  /// From here on the next completion makes `descriptor` readable. `poll` once more before waiting.
  void arm();
  void take_events() noexcept;

  /// Both pairs stop: what is posted comes back unsent.
  void stop() noexcept;
  /// What a device does not give back it loses with its pairs: nothing moves any more.
  void destroy_pairs() noexcept;
  /// Everything that was posted has come back.
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
    std::uint32_t bytes = 0;  // that are written in place
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
  std::vector<posted> outgoing_;         // what was posted and has not left, by its number
  std::vector<std::uint64_t> ended_;     // placements
  std::size_t most_placed_bytes_ = 0;
  std::uint32_t unsignalled_ = 0;
  std::uint32_t records_out_ = 0, chunks_out_ = 0, words_out_ = 0;  // ever
  std::uint32_t records_underway_ = 0, chunks_underway_ = 0, words_underway_ = 0;
  std::uint32_t placed_underway_ = 0;
  std::uint64_t placed_bytes_underway_ = 0;
  std::uint32_t receives_underway_ = 0;
  std::vector<std::uint32_t> generations_;  // of the receives, records before words
  std::vector<arrival> arrived_;            // a ring, as long as there are receives
  std::size_t arrived_first_ = 0, arrived_count_ = 0;
  std::uint64_t received_bytes_ = 0;
  unsigned unacked_events_ = 0;
  bool greeted_records_ = false, greeted_words_ = false;
  std::string failure_;
  bool knows_cause_ = false;
};

}  // namespace tandem::verbs
