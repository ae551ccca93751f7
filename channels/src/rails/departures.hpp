#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "protocol/session.hpp"
#include "rails/envelope.hpp"
#include "rails/keeper.hpp"

namespace tandem::rails {

/// A frame of the session under the number that it keeps until the peer has it.
struct parcel {
  enum class state : std::uint8_t {
    free,
    writing,   ///< given to a lane, not yet whole in it
    underway,  ///< written
    orphan,    ///< its lane is dead here; the peer has not yet said what arrived
    waiting,   ///< did not arrive: any lane may take it
  };
  protocol::outgoing out;
  std::uint32_t number = 0;
  std::uint32_t order = 0;
  std::uint32_t epoch = 0;
  std::uint16_t lane = 0;
  state at = state::free;
  /// Of a short message, whose view is long handed back; or of a view that no processor reaches.
  std::unique_ptr<std::byte[]> copy;
  bool is_unread = false;  ///< its bytes could not be had: it never leaves

  /// A chunk whose view was handed back: it cannot go again.
  bool is_void() const noexcept {
    return out.header.type == protocol::frame_type::data && out.op == nullptr;
  }
  std::uint64_t bytes() const noexcept {
    return envelope_bytes + protocol::frame_bytes + out.payload.bytes;
  }
  /// As a lane carries it.
  const_view carried() const noexcept {
    return copy ? const_view(copy.get(), out.payload.bytes) : out.payload;
  }
};

/// The sending half of a channel of rails, without I/O: numbers what the session has to say, knows
/// on which lane each piece is, and gives what a dead lane has lost to the others.
class departures {
 public:
  /// @param checksums  of payloads on lanes that are not guarded
  departures(protocol::session& from, std::size_t lanes, bool checksums)
      : session_(from),
        checksums_(lanes, checksums),
        wanted_(checksums),
        underway_(lanes),
        arrived_(lanes) {}

  /// Before anything is sent.
  void kept_by(keeper* who) noexcept { keeper_ = who; }
  /// The next parcel for a lane: one that was lost first. Null: nothing to say, or too much is on
  /// its way.
  parcel* next(std::uint16_t lane, std::uint32_t epoch);
  /// Has the bytes of this parcel where its lane can carry them. False: they could not be had.
  bool carry(parcel& p);
  void written(parcel& p) noexcept;

  /// What the peer says has arrived. False: no correct peer says this.
  bool on_report(std::uint32_t arrived, std::span<const std::byte> body);
  /// From here on the payloads of this lane need no checksums, or do.
  void lane_guarded(std::uint16_t lane, bool is_guarded) {
    checksums_[lane] = wanted_ && !is_guarded;
  }
  /// This lane is dead here, up to this epoch.
  void lane_lost(std::uint16_t lane, std::uint32_t epoch);
  /// The peer's last word about it was read: what is missing goes again.
  void lane_fenced(std::uint16_t lane, std::uint32_t epoch);

  /// The session has failed: its views are handed back, so chunks are not sent again.
  void forget_chunks();
  /// This chunk goes by its bytes after all, though it was to be written in place.
  void displace(parcel& p);
  /// What goes after everything that the session had to say.
  void say_last(const protocol::frame& goodbye) { last_word_ = goodbye; }

  std::uint64_t underway_bytes(std::uint16_t lane) const noexcept { return underway_[lane]; }
  /// What the peer has of all that a lane carried, in bytes since the beginning.
  std::uint64_t arrived_bytes(std::uint16_t lane) const noexcept { return arrived_[lane]; }
  /// The peer has everything.
  bool empty() const noexcept { return parcels_.empty() && !last_word_; }
  std::uint64_t resent_parcels() const noexcept { return resent_; }

 private:
  parcel* resend(std::uint16_t lane, std::uint32_t epoch);
  parcel* fresh(std::uint16_t lane, std::uint32_t epoch);
  /// Of a number from `lowest_` to before `upcoming_`.
  parcel& at(std::uint32_t number) noexcept { return parcels_[number - lowest_]; }
  bool has_arrived(std::uint32_t number);
  void forget_oldest() noexcept;
  void keep(parcel& p);
  void read(parcel& p);
  void guard(parcel& p) const noexcept;
  void release(parcel& p);
  void wait(parcel& p);

  protocol::session& session_;
  keeper* keeper_ = nullptr;
  std::vector<bool> checksums_;  // by lane
  const bool wanted_;
  std::deque<parcel> parcels_;  // those from lowest_ on; they stay in place until they leave
  std::vector<std::uint64_t> underway_, arrived_;  // bytes, by lane
  std::optional<protocol::frame> last_word_;
  std::deque<std::uint32_t> waiting_;
  std::uint32_t lowest_ = 0;    // the oldest that the peer may not have
  std::uint32_t upcoming_ = 0;  // the next number
  std::uint32_t last_order_ = 0;
  std::uint64_t resent_ = 0;
};

}  // namespace tandem::rails
