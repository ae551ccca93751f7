#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <tandem/channel.hpp>
#include <tandem/pending.hpp>
#include <tandem/settings.hpp>
#include <vector>

#include "devices/exports.hpp"
#include "devices/greeting.hpp"
#include "devices/lent_staging.hpp"
#include "devices/nic_memory.hpp"
#include "devices/peer_pieces.hpp"
#include "devices/pieces.hpp"
#include "devices/staging.hpp"
#include "protocol/carried_channel.hpp"
#include "protocol/session.hpp"

namespace tandem::devices {

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
class link final : public std::enable_shared_from_this<link>,
                   private pending_owner,
                   private protocol::filler,
                   private protocol::lender {
 public:
  /// @param inner  must exist until `forget_inner`
  /// @param where  of this end; zeros: it shares no memory with any peer
  /// @param nics   registers memory with the NICs below; null: NICs access no device memory
  link(channel& inner, std::shared_ptr<copiers> by, const settings& options, protocol::identity who,
       const whereabouts& where = whereabouts::here(), std::shared_ptr<nic_memory> nics = nullptr);

  void run();  ///< sends the handshake and starts reading
  bool start(operation& op);
  bool linger(operation& op);
  void look();
  void cancel(operation& op);
  void fail(const error& reason, bool fail_inner);
  /// The inner channel is being destroyed, and completes the operations of this link itself.
  void forget_inner() noexcept { inner_ = nullptr; }

  asio::any_io_executor get_executor() const noexcept { return executor_; }
  const protocol::session& messages() const noexcept { return session_; }
  const std::vector<memory_kind>& kinds() const noexcept { return kinds_; }
  std::vector<rail_stats> rails() const;
  /// How the ends access each other's device memory; `none` until the handshake of the peer.
  reading reads() const noexcept { return reads_; }
  /// Other payloads between devices go through staging that both processes map.
  bool shares_staging() const noexcept { return shares_staging_; }
  /// NICs have read or written device memory of this end.
  bool goes_by_nics() const noexcept { return goes_by_nics_; }

 private:
  friend struct departure;
  friend struct referral;
  friend struct said_note;
  friend struct pull;
  friend struct landing_piece;

  static constexpr std::size_t control_slots = 16;
  /// In flight at once: enough to keep the peer's engines busy, and few enough that a cancelled
  /// send soon completes.
  static constexpr std::size_t most_referrals = 64;
  static constexpr std::uint64_t none_late = ~std::uint64_t{0};

  // Pending operations of the inner channel and the copy engines keep the link alive.
  bool start_inner(operation& op);
  void went_out();
  std::shared_ptr<link> came_back() noexcept;
  void destroyed() noexcept;
  void settle();

  // Sending frames and payloads.
  void flush();
  carriage how_to_carry(const protocol::outgoing& out);
  bool depart();
  bool is_over_nics() { return nics_ && inner_ != nullptr && inner_->reaches({}); }
  region let_nics_reach(mutable_view staged) {
    return is_over_nics() ? nics_->add_host(staged) : region();
  }
  bool is_reached(const const_view& view);
  bool has_room(carriage how, bool by_nics, departure& d);
  void release_staging(departure& d) noexcept;
  void stage(departure& d);
  void stage_over(departure& d, const std::shared_ptr<const error>& failure);
  void send_payloads();
  void header_over(departure& d);
  void payload_over(departure& d);
  void part_over(departure& d);
  departure& take_departure();

  // Payloads that the peer reads by reference.
  void flush_frames();
  bool can_be_read(const protocol::outgoing& out);
  bool has_room_for_referral() const noexcept;
  void gather_chunks(referral& r, bool takes_more);
  bool refer();
  void send_reference(referral& r);
  void all_moved(referral& r);
  referral& take_referral();
  void reference_left(referral& r);
  bool acknowledged(std::uint32_t serial);
  void let_go(referral& r);
  void let_go_of_referrals() noexcept;
  void let_go_later();
  bool has_notes() const noexcept;
  void say_notes();
  void say(const note& what);

  // Payloads through shared staging.
  bool can_be_shared(const protocol::outgoing& out) const;
  bool stage_shared();
  void staged_over(referral& r, const std::shared_ptr<const error>& failure);
  bool has_staging_to_offer() const noexcept;
  void offer_staging();
  bool answered_staging(const note& answer);

  // Payloads written into the peer's views, and views granted to the peer for writing.
  bool can_be_placed(const protocol::outgoing& out);
  bool place();
  bool begin_copy(referral& r, copier::way which, void* to);
  void land_placed(const protocol::frame& f);
  void lend(operation& op, std::uint64_t bytes, std::vector<protocol::grant>& grants) override;
  bool is_lent(const operation& op) const noexcept override;
  void returned(const operation& op) noexcept override;
  void settled(operation&) noexcept override {}
  void take_views_back();

  // Payloads read from the peer by reference.
  void take_note(std::span<const std::byte> bytes);
  void meet(const greeting& theirs);
  void land_reference(const protocol::frame& f, const reference& what);
  bool is_sound(const protocol::frame& f, const reference& what) const;
  void begin_pull(pull& p);
  std::optional<imports::source> look_up(const pull& p, accelerator& by, std::string& why);
  bool find_source(pull& p, copier* for_view);
  void pull_to_view(pull& p);
  void pull_piece(pull& p);
  void pull_pieces();
  void pull_over(pull& p, const std::shared_ptr<const error>& failure);
  bool empty_slot(pull& p);
  void finish_pull(pull& p);
  void forget_pulls(bool peer_has_left);
  pull& take_pull();

  // Receiving frames and payloads.
  void start_reading();
  void read_frames();
  void take(const control_slot& slot);
  void take_greeting(const control_slot& slot);
  void take_plain(const protocol::frame& f);
  void take_granted(const protocol::frame& grant, const std::byte* accept);
  void land_inside(const protocol::frame& f, const std::byte* payload);
  void land_message(const protocol::frame& f);
  void post_payloads();
  bool prepare(landing_piece& piece);
  void payload_came(landing_piece& piece);
  void finish_payload(landing_piece& piece);
  void take_payload(landing_piece& piece);
  void flush_nics(operation& op);
  void close_landing(landing_piece& piece) noexcept;
  void release_views() noexcept;
  void conclude();
  landing_piece& take_piece();
  void recycle(landing_piece& piece) noexcept;

  // Copies into views.
  void copy_in(landing_piece& piece, operation& op, void* to, std::size_t bytes);
  void copy_over(landing_piece& piece, const std::shared_ptr<const error>& failure);
  void fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) override;
  void fill_views();
  bool fill_some(fill_job& job, const std::byte* from);

  void inner_failed(const operation& op);
  void broken(const std::string& why);
  void heard_goodbye();
  void complete_done();
  void complete_soon();
  void arm_timer(operation::time_point when);
  void abandon_users() noexcept;
  void abandon() noexcept override;

  channel* inner_;
  const asio::any_io_executor executor_;
  const std::shared_ptr<copiers> copiers_;
  const std::vector<memory_kind> kinds_;
  const std::size_t inside_bytes_;  // the longest inline payload
  protocol::session session_;
  asio::steady_timer timer_;
  operation::time_point timer_due_ = operation::time_point::max();

  const whereabouts where_;
  const std::uint32_t wants_;  // flags of the handshake
  reading reads_ = reading::none;
  std::optional<exports> exports_;
  std::optional<imports> imports_;
  copier* home_ = nullptr;  // of the first device view here; opens what the peer describes
  std::vector<std::unique_ptr<referral>> referrals_;  // by serial
  std::vector<referral*> free_referrals_;
  std::uint64_t referred_bytes_ = 0;
  asio::steady_timer patience_;
  std::vector<std::unique_ptr<said_note>> notes_;
  std::vector<said_note*> free_notes_;
  std::vector<std::unique_ptr<pull>> all_pulls_;
  std::vector<pull*> free_pulls_;
  std::vector<pull*> pulls_;            // in flight
  std::deque<pull*> waiting_pulls_;     // those that wait for staging
  std::vector<operation*> lent_views_;  // views that the peer may write into
  std::vector<std::uint32_t> pulled_;   // serials to acknowledge

  const std::shared_ptr<nic_memory> nics_;
  bool goes_by_nics_ = false;
  staging staging_out_, staging_in_;
  bool shares_staging_ = false;
  enum class offer : std::uint8_t { none, asked, open, refused };
  std::array<offer, vendors.size()>
      offers_{};  // staging of this end offered to the peer, by vendor
  lent_staging lent_;
  std::array<control_slot, control_slots> control_;
  std::size_t next_control_ = 0;
  std::unique_ptr<std::byte[]> greeting_;
  operation greeting_op_;

  std::vector<std::unique_ptr<departure>> departures_;
  std::vector<departure*> free_departures_;
  protocol::outgoing one_;  // the frame being sent
  bool has_one_ = false;
  shared_place one_at_;                        // of its payload, for the peer to read
  bool is_rest_there_ = false;                 // so is the rest of its message
  imports::source one_goes_to_;                // where the payload can be written
  std::optional<protocol::wire_frame> grant_;  // sent together with its accept, which is next
  departure* first_payload_ = nullptr;         // queue of payloads to send, in order
  departure* last_payload_ = nullptr;
  std::size_t payloads_in_place_ = 0;  // being sent from their views

  std::vector<std::unique_ptr<landing_piece>> pieces_;
  std::vector<landing_piece*> free_pieces_;
  std::vector<landing_piece*> landings_;    // not yet received
  landing_piece* first_landing_ = nullptr;  // queue of receives to post, in order
  landing_piece* last_landing_ = nullptr;
  std::deque<fill_job> fills_;

  std::size_t outside_ = 0;
  std::shared_ptr<link> self_;  // while `pending_async_` > 0
  std::uint64_t moved_ = 0;
  std::uint64_t moved_when_late_ = none_late;
  bool is_agreed_ = false;
  bool peer_has_left_ = false;
  bool read_ended_ = false;
  bool closed_ = false;
  bool completion_posted_ = false;
  bool is_looking_ = false;  // inside `start`: completions are posted
};

/// The handle of a link whose inner channel a fabric owns.
using link_channel = protocol::carried_channel<link>;

/// A channel over one of its own, for two ends that are no ranks of a fabric.
std::unique_ptr<channel> make_channel(std::unique_ptr<channel> inner, std::shared_ptr<copiers> by,
                                      const settings& options, protocol::identity who = {},
                                      const whereabouts& where = whereabouts::here(),
                                      std::shared_ptr<nic_memory> nics = nullptr);

}  // namespace tandem::devices
