#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "protocol/session.hpp"
#include "transports/rails/memory_registrar.hpp"
#include "transports/rails/receive_window.hpp"

namespace tandem::rails {

/// Bytes of eager messages after which their receipt is reported at once; and of chunks on an only
/// lane, where a report of each would only wake a sender that is blocked anyway.
constexpr std::uint64_t bytes_per_report = 256 * 1024;
constexpr std::uint64_t chunk_bytes_per_report = 4 * 1024 * 1024;

/// The payload of one packet while it is received: `received` of `frame.payload_bytes` so far, to
/// `target()` + `received`, or discarded while that is null, which it may become at any time.
struct inbound {
  enum class use : std::uint8_t {
    direct,  ///< into the session's view
    early,   ///< an eager message that overtook another: buffered until its turn
    dropped  ///< a duplicate, or no longer needed
  };
  envelope header;
  protocol::frame frame;
  protocol::incoming_payload where;
  std::size_t received = 0;
  use as = use::direct;
  bool on_lane = true;  ///< false: begun, and its lane was lost; it is sent again
  std::unique_ptr<std::byte[]> early;
  std::unique_ptr<std::byte[]>
      bounce_buffer;  ///< bounce buffer for a view that the CPU cannot access
  std::uint32_t crc = 0;

  /// Where the CPU copies it; null: it is discarded.
  std::byte* target() const noexcept {
    return bounce_buffer && where.target != nullptr ? bounce_buffer.get() : where.target;
  }
  std::size_t missing_bytes() const noexcept { return frame.payload_bytes - received; }
};

/// The receiving half of a channel over rails, without I/O: takes packets from many lanes, drops
/// duplicates, and passes ordered frames to the session in sequence, chunks as they arrive.
class reassembly {
 public:
  reassembly(protocol::session& into, const protocol::limits& agreed)
      : session_(into), limits_(agreed) {}
  /// To be called before anything is received.
  void use_registrar(memory_registrar* who) noexcept { registrar_ = who; }

  enum class outcome : std::uint8_t {
    taken,           ///< complete: no payload follows
    expect_payload,  ///< its payload follows, into `into`
    violated         ///< protocol violation: `why`
  };
  outcome begin(const envelope& header, const protocol::frame& f, inbound*& into);
  /// So many more bytes were received.
  void add_received(inbound& in, std::size_t bytes) noexcept;
  enum class ending : std::uint8_t {
    good,
    damaged,  ///< checksum mismatch: the packet is not received, and its lane is closed
    violated
  };
  /// With several lanes each chunk is reported: the sender divides chunks by measured rates.
  void shared_by_lanes(bool several) noexcept { shared_ = several; }
  /// All bytes were received. Unless `good`: `why`.
  ending end(inbound& in);
  /// Its lane is lost: the packet is not received.
  void drop(inbound& in);
  /// The session has failed or ended: from now on packets are discarded and only acknowledged.
  void forget();

  const std::string& why() const noexcept { return why_; }
  const receive_window& arrived() const noexcept { return arrived_; }
  /// A report of what arrived since the last one is due now.
  bool needs_report() const noexcept { return report_due_; }
  void request_report() noexcept { report_due_ = report_due_ || unreported_packets_ > 0; }
  void reported() noexcept {
    unreported_bytes_ = 0;
    unreported_packets_ = 0;
    report_due_ = false;
  }
  bool peer_failed() const noexcept { return peer_failed_; }
  std::uint64_t damaged_packets() const noexcept { return damaged_count_; }
  std::uint64_t repeated_packets() const noexcept { return repeated_; }

 private:
  struct early_frame {
    protocol::frame header;
    std::unique_ptr<std::byte[]> payload;
  };

  outcome begin_ordered(const envelope& header, const protocol::frame& f, inbound*& into);
  outcome begin_early(const envelope& header, const protocol::frame& f, inbound*& into);
  outcome begin_again(inbound& in, const protocol::frame& f, inbound*& into);
  outcome drop_payload(const envelope& header, const protocol::frame& f, inbound*& into);
  outcome expect_payload(inbound& in, inbound*& into);
  outcome refuse(std::string why);
  bool handle(const protocol::frame& f);
  bool deliver_early();
  bool deliver(early_frame& next);
  void arrive(const inbound& in);
  void arrive(std::uint32_t number, std::uint64_t bytes, std::uint64_t max_unreported_bytes);
  void advance_order() noexcept;
  inbound& allocate(const envelope& header, const protocol::frame& f);
  void free(inbound& in);
  inbound* find(std::uint32_t number) const noexcept;

  void fill(protocol::incoming_payload& where, const std::byte* from);

  protocol::session& session_;
  const protocol::limits limits_;
  memory_registrar* registrar_ = nullptr;
  receive_window arrived_;
  std::uint32_t next_order_ = 1;
  std::unordered_map<std::uint32_t, early_frame> early_;  // by order
  std::uint64_t early_bytes_ = 0;
  std::vector<inbound*> open_;  // packets being received or sent again: about as many as lanes
  std::vector<std::unique_ptr<inbound>> all_;
  std::vector<inbound*> free_;
  std::uint32_t unreported_packets_ = 0;
  std::uint64_t unreported_bytes_ = 0;
  bool report_due_ = false;
  bool shared_ = false;
  bool peer_failed_ = false;
  bool discarding_ = false;
  std::uint64_t damaged_count_ = 0;
  std::uint64_t repeated_ = 0;
  std::string why_;
};

}  // namespace tandem::rails
