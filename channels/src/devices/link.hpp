#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <tandem/channel.hpp>
#include <tandem/settings.hpp>
#include <vector>

#include "devices/exports.hpp"
#include "devices/handshake.hpp"
#include "devices/nic_memory.hpp"
#include "devices/peer_staging.hpp"
#include "devices/peer_transfers.hpp"
#include "devices/staging.hpp"
#include "devices/transfers.hpp"
#include "link/channel_handle.hpp"
#include "link/link_base.hpp"
#include "protocol/session.hpp"

namespace tandem::devices {

// The flows of the inner channel that a link uses.
constexpr flow_id frame_flow = 0;
constexpr flow_id payload_flow = 1;

/// The longest payload that is copied into the message of its frame: cheaper than a second message.
constexpr std::size_t max_inline_bytes = 4096;

/// Carries out a session over the messages of another channel, which carries host memory only.
///
/// Frames go on one flow of the inner channel, in order, with short payloads of host memory inline.
/// Every other payload is a message on a second flow: straight from and to the view where that is
/// host memory or is registered with the NICs of the inner channel, else staged through pinned
/// memory by the copy engine. A frame is sent before its payload is staged, so that no copy delays
/// the frames behind it, and the peer has posted its receive by then. All views that engines and
/// the inner channel may access are pinned.
///
/// Kept alive by its handle and by pending operations of the inner channel and the copy engines.
class link final : public transport::link_base,
                   private protocol::view_writer,
                   private protocol::remote_write_grants {
 public:
  /// @param inner  must exist until `forget_inner`
  /// @param where  of this end; zeros: it shares no memory with any peer
  /// @param nics   registers memory with the NICs below; null: NICs access no device memory
  link(channel& inner, std::shared_ptr<copiers> by, const settings& options, protocol::identity who,
       const process_location& where = process_location::here(),
       std::shared_ptr<nic_memory> nics = nullptr);

  void run();  ///< sends the handshake and starts reading
  bool start(operation& op);
  bool spin_wait(operation& op);
  void make_progress();
  /// The inner channel is being destroyed, and completes the operations of this link itself.
  void forget_inner() noexcept { inner_ = nullptr; }

  memory_location locate_memory(const const_view& memory);
  std::unique_ptr<const mapped_memory> map_memory(const memory_location& at, std::size_t bytes,
                                                  accelerator& by);
  void retire_freed_memory();

  const std::vector<memory_kind>& kinds() const noexcept { return kinds_; }
  std::vector<rail_stats> rails() const;
  /// How the ends access each other's device memory; `none` until the handshake of the peer.
  peer_access access() const noexcept { return peer_access_; }
  /// Other payloads between devices go through staging that both processes map.
  bool shares_staging() const noexcept { return shares_staging_; }
  /// NICs have read or written device memory of this end.
  bool uses_nics() const noexcept { return uses_nics_; }

 private:
  friend struct in_flight_frame;
  friend struct read_request;
  friend struct control_send;
  friend struct pull;
  friend struct incoming_piece;

  static constexpr std::size_t control_slots = 16;
  /// In flight at once: enough to keep the peer's engines busy, and few enough that a cancelled
  /// send soon completes.
  static constexpr std::size_t max_read_requests = 64;

  std::shared_ptr<link> self() { return std::static_pointer_cast<link>(shared_from_this()); }

  // Pending operations of the inner channel and the copy engines keep the link alive.
  bool start_inner(operation& op);
  void begin_async();
  std::shared_ptr<link> end_async() noexcept;
  void destroyed() noexcept;
  void flush_and_complete();

  // Sending frames and payloads.
  void flush();
  transfer_method choose_transfer(const protocol::outgoing_frame& out);
  bool send_frame();
  bool has_nics() { return nics_ && inner_ != nullptr && inner_->is_zero_copy({}); }
  region register_with_nics(mutable_view staged) {
    return has_nics() ? nics_->add_host(staged) : region();
  }
  bool is_nic_accessible(const const_view& view);
  bool has_room(transfer_method how, bool by_nics, in_flight_frame& d);
  void release_staging(in_flight_frame& d) noexcept;
  void stage(in_flight_frame& d);
  void stage_done(in_flight_frame& d, const std::shared_ptr<const error>& failure);
  void send_payloads();
  void header_done(in_flight_frame& d);
  void payload_done(in_flight_frame& d);
  void part_done(in_flight_frame& d);
  in_flight_frame& take_in_flight_frame();

  // Payloads that the peer reads by reference.
  void flush_frames();
  bool can_be_read(const protocol::outgoing_frame& out);
  bool has_room_for_read_request() const noexcept;
  void take_chunks(read_request& r, bool takes_more);
  bool send_read_request();
  void send_reference(read_request& r);
  void transfer_done(read_request& r);
  read_request& take_read_request();
  void reference_sent(read_request& r);
  bool acknowledged(std::uint32_t serial);
  void release(read_request& r);
  void release_read_requests() noexcept;
  void release_later();
  bool has_control_messages() const noexcept;
  void send_control_messages();
  void send_control(const control_message& what);
  void send_pages(const control_message& described);

  // Payloads through shared staging.
  bool can_be_shared(const protocol::outgoing_frame& out) const;
  bool stage_shared();
  void staged_done(read_request& r, const std::shared_ptr<const error>& failure);
  bool has_staging_to_offer() const noexcept;
  void offer_staging();
  bool staging_answered(const control_message& answer);

  // Payloads written into the peer's views, and views granted to the peer for writing.
  bool can_be_placed(const protocol::outgoing_frame& out);
  bool write_in_place();
  bool begin_copy(read_request& r, copier::copy_kind which, void* to);
  void receive_placed(const protocol::frame& f);
  void grant_writes(operation& op, std::uint64_t bytes,
                    std::vector<protocol::grant>& grants) override;
  bool is_granted(const operation& op) const noexcept override;
  void grants_ended(const operation& op) noexcept override;
  void view_released(operation&) noexcept override {}
  void end_all_grants();

  // Payloads read from the peer by reference.
  void take_control_message(std::span<const std::byte> bytes);
  void negotiate(const handshake& theirs);
  void receive_reference(const protocol::frame& f, const reference& what);
  bool is_sound(const protocol::frame& f, const reference& what) const;
  void begin_pull(pull& p);
  std::optional<imports::source> look_up(const pull& p, accelerator& by, std::string& why);
  bool find_source(pull& p, copier* for_view);
  void pull_to_view(pull& p);
  void pull_piece(pull& p);
  void pull_pieces();
  void pull_done(pull& p, const std::shared_ptr<const error>& failure);
  bool empty_slot(pull& p);
  void finish_pull(pull& p);
  void forget_pulls(bool peer_has_closed);
  pull& take_pull();

  // Receiving frames and payloads.
  void start_reading();
  void read_frames();
  void take(const control_slot& slot);
  void take_handshake(const control_slot& slot);
  void take_control_frame(const protocol::frame& f);
  void take_granted(const protocol::frame& grant, const std::byte* accept);
  void receive_inline(const protocol::frame& f, const std::byte* payload);
  void receive_message(const protocol::frame& f);
  void post_payloads();
  bool prepare(incoming_piece& piece);
  void payload_came(incoming_piece& piece);
  void finish_payload(incoming_piece& piece);
  void take_payload(incoming_piece& piece);
  void flush_nics(operation& op);
  void close_incoming(incoming_piece& piece) noexcept;
  void release_views() noexcept;
  void conclude();
  incoming_piece& take_piece();
  void recycle(incoming_piece& piece) noexcept;

  // Copies into views.
  void copy_in(incoming_piece& piece, operation& op, void* to, std::size_t bytes);
  void copy_done(incoming_piece& piece, const std::shared_ptr<const error>& failure);
  void fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) override;
  void fill_views();
  bool fill_some(fill_job& job, const std::byte* from);

  void inner_failed(const operation& op);
  void on_close();
  void complete_done();
  /// Fails the inner channel, too, whose own close frame informs the peer.
  void stop(const error& reason, bool notify_peer) override;
  void operations_ended() override;
  std::optional<std::uint64_t> progress() const noexcept override { return moved_; }
  bool abandon_io() noexcept override;

  channel* inner_;
  const std::shared_ptr<copiers> copiers_;
  const std::vector<memory_kind> kinds_;
  const std::size_t inline_bytes_;  // the longest inline payload
  protocol::session session_;

  const process_location where_;
  const std::uint32_t requested_flags_;  // flags of the handshake
  peer_access peer_access_ = peer_access::none;
  std::optional<exports> exports_;
  std::optional<imports> imports_;
  copier* default_copier_ =
      nullptr;  // of the first device view here; opens what the peer describes
  std::vector<std::unique_ptr<read_request>> read_requests_;  // by serial
  std::vector<read_request*> free_read_requests_;
  std::uint64_t referred_bytes_ = 0;
  asio::steady_timer release_timer_;
  std::vector<std::unique_ptr<control_send>> control_sends_;
  std::vector<control_send*> free_control_sends_;
  std::vector<std::unique_ptr<pull>> all_pulls_;
  std::vector<pull*> free_pulls_;
  std::vector<pull*> pulls_;               // in flight
  std::deque<pull*> waiting_pulls_;        // those that wait for staging
  std::vector<operation*> granted_views_;  // views that the peer may write into
  std::vector<std::uint32_t> pulled_;      // serials to acknowledge

  const std::shared_ptr<nic_memory> nics_;
  bool uses_nics_ = false;
  staging staging_out_, staging_in_;
  bool shares_staging_ = false;
  enum class offer : std::uint8_t { none, pending, open, refused };
  std::array<offer, vendors.size()>
      offers_{};  // staging of this end offered to the peer, by vendor
  peer_staging peer_staging_;
  std::array<control_slot, control_slots> control_;
  std::size_t next_control_ = 0;
  std::unique_ptr<std::byte[]> handshake_;
  operation handshake_op_;

  std::vector<std::unique_ptr<in_flight_frame>> in_flight_frames_;
  std::vector<in_flight_frame*> free_in_flight_frames_;
  protocol::outgoing_frame current_;  // the frame being sent
  bool has_current_ = false;
  shared_location current_location_;           // of its payload, for the peer to read
  bool is_rest_readable_ = false;              // so is the rest of its message
  imports::source current_target_;             // where the payload can be written
  std::optional<protocol::wire_frame> grant_;  // sent together with its accept, which is next
  in_flight_frame* first_payload_ = nullptr;   // queue of payloads to send, in order
  in_flight_frame* last_payload_ = nullptr;
  std::size_t payloads_in_place_ = 0;  // being sent from their views

  std::vector<std::unique_ptr<incoming_piece>> pieces_;
  std::vector<incoming_piece*> free_pieces_;
  std::vector<incoming_piece*> incoming_pieces_;  // not yet received
  incoming_piece* first_incoming_ = nullptr;      // queue of receives to post, in order
  incoming_piece* last_incoming_ = nullptr;
  std::deque<fill_job> fills_;

  std::size_t pending_async_ = 0;
  std::shared_ptr<link> self_;  // while `pending_async_` > 0
  std::uint64_t moved_ = 0;
  bool is_agreed_ = false;
  bool peer_has_closed_ = false;
  bool read_ended_ = false;
  bool is_polling_inner_ = false;  // inside `start`: completions are posted
};

/// The handle of a link whose inner channel a fabric owns.
using link_channel = transport::channel_handle<link>;

/// A channel over one of its own, for two ends that are no ranks of a fabric.
std::unique_ptr<channel> make_channel(std::unique_ptr<channel> inner, std::shared_ptr<copiers> by,
                                      const settings& options, protocol::identity who = {},
                                      const process_location& where = process_location::here(),
                                      std::shared_ptr<nic_memory> nics = nullptr);

}  // namespace tandem::devices
