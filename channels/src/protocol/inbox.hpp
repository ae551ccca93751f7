#pragma once

#include "protocol/eager_credits.hpp"
#include "protocol/flow_table.hpp"
#include "protocol/incoming_messages.hpp"
#include "protocol/operation_list.hpp"
#include "protocol/outbox.hpp"
#include "protocol/pending_probes.hpp"
#include "protocol/remote_write_grants.hpp"
#include "protocol/reply_queue.hpp"
#include "protocol/unexpected_queue.hpp"
#include "protocol/view_grants.hpp"

namespace tandem::protocol {

/// The receiving half of a session, without I/O: matches messages and receives, flow by flow and in
/// order.
class inbox {
 public:
  inbox(const limits& agreed, completion_sink& completions, chunk_order chunks)
      : limits_(agreed),
        completions_(completions),
        chunks_(chunks),
        credits_(agreed),
        grants_(completions, replies_) {}

  /// To be called before the first frame.
  void set_limits(const limits& on) noexcept {
    limits_ = on;
    credits_.set_limits(on);
  }
  /// Issues grants for the peer's NICs. To be called before anything is received.
  void set_remote_write_grants(remote_write_grants* who) noexcept { grants_.set_issuer(who); }

  void post(operation& op);
  /// Completes when there is a message that no posted receive takes; leaves it.
  void probe(operation& op);
  /// A view that the peer may write to stays pinned until the peer confirms that it has stopped.
  void cancel(operation& op, error_code reason, std::string detail = {});

  // Frames from the peer. False: a protocol violation; `why` holds the reason.
  bool on_announce(const frame& f, std::string& why);
  bool on_withdraw(const frame& f, std::string& why);
  bool on_revoked(const frame& f, std::string& why);
  bool begin(const frame& f, incoming_payload& where, std::string& why);
  void end(incoming_payload& where);
  /// Replaces both for a complete eager message: the posted receive that it matches, to be followed
  /// by `arrived`. Null: use `begin`; nothing has changed.
  operation* match_eager(const frame& f) noexcept;
  void arrived(const frame& f);
  /// The rest of the chunk will not arrive here: the chunk counts as not received and may be sent
  /// again.
  void drop(incoming_payload& where) noexcept { payloads_.close(where); }

  /// The sender could not read this payload: its receive fails. A chunk counts as not received, for
  /// its message will be withdrawn.
  void mark_unreadable(incoming_payload& where);

  /// The rest will never arrive, because the peer has closed: an eager message leaves no trace.
  void abandon(incoming_payload& where) noexcept;

  /// False: `next` has no frame.
  bool may_have_next() const noexcept { return !replies_.empty() || credits_.may_have_report(); }
  /// The next reply or credit frame for the peer; false if there is none.
  bool next(frame& out) { return replies_.pop(out) || credits_.next_report(out); }
  /// Eager bytes consumed on a flow, for the credit field of any frame of that flow.
  std::uint32_t credit(flow_id flow);

  /// The peer has closed: complete messages may still be received, no more will arrive.
  void peer_closed(error_code reason);
  /// No NIC of the peer can write to the view of this operation any more.
  void grants_ended(operation& op);
  void drop_payloads() noexcept { payloads_.drop_all(); }

  std::uint64_t unexpected_bytes() const noexcept { return unexpected_bytes_; }
  std::uint64_t unexpected_bytes_peak() const noexcept { return unexpected_peak_; }

  /// Any pending operation, null if there is none.
  operation* any() noexcept;
  /// Every operation, for deadlines.
  template <class Visitor>
  void for_each(Visitor visit) {
    filling_.for_each(visit);
    probes_.for_each(visit);
    for (auto& [id, flow] : flows_) flow.posted.for_each(visit);
  }

 private:
  struct flow_state {
    operation_list posted;
    unexpected_queue unexpected;
    eager_credits::account credits;
    std::uint32_t announced = 0;  // open announcements
  };

  /// Twice the limit: the peer keeps to `max_flows`, but cannot know which flows only this end
  /// uses.
  std::size_t max_incoming_flows() const noexcept { return std::size_t{2} * limits_.max_flows; }
  void accept(operation& op, flow_state& flow, incoming_message& message);
  bool begin_eager(const frame& f, incoming_payload& where, std::string& why);
  bool begin_data(const frame& f, incoming_payload& where, std::string& why);
  void end_eager(incoming_payload& where);
  void deliver(operation& op, unexpected_message& from);
  void exceeds_flows(operation& op);
  void truncated(operation& op, std::uint64_t message_bytes);
  void mismatched(operation& op, const call_signature& signature);

  limits limits_;
  completion_sink& completions_;
  const chunk_order chunks_;
  flow_table<flow_state> flows_;
  unexpected_pool spare_;
  eager_credits credits_;
  operation_list filling_;  // receives of accepted or arriving messages
  pending_probes probes_;
  incoming_messages messages_;
  open_payloads payloads_;
  reply_queue replies_;
  view_grants grants_;
  std::uint64_t unexpected_bytes_ = 0;
  std::uint64_t unexpected_peak_ = 0;
  error_code closed_;
};

}  // namespace tandem::protocol
