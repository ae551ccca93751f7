#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <tandem/channel.hpp>
#include <tandem/detail/cancellable.hpp>
#include <tandem/detail/pending.hpp>
#include <tandem/detail/poller.hpp>
#include <vector>

#include "nic/lane_connection.hpp"
#include "nic/nic.hpp"
#include "protocol/session.hpp"
#include "rails/core.hpp"
#include "rails/device_copier.hpp"
#include "rails/lane_reader.hpp"
#include "rails/lane_writer.hpp"
#include "rails/registration_cache.hpp"

namespace tandem::rails {

/// Does the I/O of the core of one channel: one connection for each lane, replaced when it is lost.
/// Kept alive by its own coroutines and by its handle.
class link final : public std::enable_shared_from_this<link>,
                   private pending_owner,
                   private pollable,
                   private protocol::view_writer,
                   private memory_registrar {
 public:
  /// Called when the peer is lost without a close frame. True: the owner will call `fail` with the
  /// right reason.
  using lost_handler = std::function<bool(const error& reason)>;
  /// Connects a lane under an epoch and sets its name. A side without a connector waits for the
  /// peer's connections. Throws `connection_refused` where the peer no longer listens.
  using connector = std::function<asio::awaitable<std::unique_ptr<lane_connection>>(
      std::uint16_t lane, std::uint32_t epoch, std::string& name)>;

  link(asio::any_io_executor executor, const protocol::limits& agreed, protocol::identity who,
       std::chrono::steady_clock::duration operation_timeout, std::size_t lanes,
       const timeouts& bounds, bool checksums);

  /// Checks, while no lane is up, whether the peer still listens: the side that waits for
  /// connections has no other way to detect that the peer is gone. Throws as a `connector`.
  using liveness_probe = std::function<asio::awaitable<void>()>;

  /// Starts the clock, and connects missing lanes or probes the peer.
  void run(connector connect, liveness_probe probe = {});
  /// Takes an authenticated connection for a lane and closes its older epochs. False where this
  /// epoch is older itself.
  bool attach(std::uint16_t lane, std::uint32_t epoch, std::unique_ptr<lane_connection> over,
              std::string name);

  bool start(operation& op);
  void cancel(operation& op);
  void fail(const error& reason, bool send_close);
  void on_lost(lost_handler handler) { lost_ = std::move(handler); }
  /// As `on_lost`, for a peer that is connected and silent.
  void on_silent(lost_handler handler) { silent_ = std::move(handler); }

  asio::any_io_executor get_executor() { return executor_; }
  const core& state() const noexcept { return core_; }
  const protocol::session& messages() const noexcept { return core_.messages(); }
  bool is_over() const noexcept { return closed_; }
  /// This side connects the lanes; the peer accepts.
  bool connects_lanes() const noexcept { return static_cast<bool>(connector_); }
  bool accepts_epoch(std::size_t index, std::uint32_t epoch) const noexcept {
    return !closed_ && index < lanes_.size() &&
           core_.accepts_epoch(static_cast<std::uint16_t>(index), epoch);
  }
  /// Resets a lane's connection, for an administrator or a test; it is connected again.
  void cut(std::uint16_t index);
  /// An interface has lost its link: its lanes are lost now, without waiting for a timeout.
  void carrier_lost(const nic& which);
  std::vector<rail_stats> rails() const;
  /// As `channel::is_zero_copy`.
  bool is_zero_copy(const const_view& view);

 private:
  struct lane {
    lane(link& of, std::uint16_t number, std::unique_ptr<lane_connection> connected)
        : index(number),
          over(std::move(connected)),
          reader(of.core_, number),
          writer(of.core_, number) {}
    std::uint16_t index;
    std::unique_ptr<lane_connection> over;
    lane_reader reader;
    lane_writer writer;
    bool open = true;
    bool armed = false;
    bool blocked = false;
    int empty_polls = 0;
    int unsent_bytes = 0;         // limit of what the kernel holds unsent (TCP_NOTSENT_LOWAT)
    double peak_bytes_per_s = 0;  // recent
  };
  using lane_ptr = std::shared_ptr<lane>;

  bool read_ready(lane& from, core::time_point now);
  bool poll() override;
  void arm() override;
  void arm(const lane_ptr& which);
  void flush();
  bool write_some(const lane_ptr& to, core::time_point now);
  void wait_for_room(const lane_ptr& to);
  bool has_unsent() const noexcept;
  void bound_unsent(lane& of);
  void lose(lane& which, const std::string& why);
  void close(lane& which, bool reset);
  void watch_placements(lane& of);
  std::optional<std::uint32_t> register_for_peer(std::uint16_t lane, operation& op,
                                                 std::uint64_t bytes) override;
  std::optional<std::uint32_t> register_for_read(std::uint16_t lane, operation& op,
                                                 std::size_t at_once) override;
  void deregister(operation& op) noexcept override { registrations_.deregister(op); }
  bool fetch(const const_view& from, std::byte* to) noexcept override;
  void store(const std::byte* from, const mutable_view& to) override;
  void fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) override;
  void after_event();
  void apply_core_state();
  void connect_missing();
  void probe_when_alone();
  asio::awaitable<void> connect_lane(std::uint16_t index);
  asio::awaitable<void> probe_peer();
  asio::awaitable<void> retry(std::function<asio::awaitable<void>()> once,
                              std::function<bool()> is_enough);
  asio::awaitable<void> connect_once(std::uint16_t index);
  void tick();
  void arm_deadline(operation::time_point when);
  void expire();
  void complete_done();
  void complete_soon();
  void on_peer_lost(const std::string& how, const std::string& advice = {});
  void broken(const std::string& why);
  void on_peer_failure();
  void on_peer_close();
  void linger();
  void finish();
  void abandon() noexcept override;

  const asio::any_io_executor executor_;
  core core_;
  registration_cache registrations_;
  device_copier device_copier_;
  bool accepts_device_memory_ = false;  // `is_zero_copy` has returned true for device memory
  const timeouts bounds_;
  std::vector<lane_ptr> lanes_;  // null: not connected
  std::vector<std::string> names_;
  struct loss_record {
    std::uint32_t count = 0;
    std::string why;  ///< the last
  };
  std::vector<loss_record> lost_lanes_;
  std::vector<std::shared_ptr<cancellable>> connect_attempts_;
  std::shared_ptr<cancellable> active_probe_;
  connector connector_;
  liveness_probe probe_;
  asio::steady_timer clock_, deadline_;
  operation::time_point deadline_at_ = operation::time_point::max();
  std::optional<core::time_point> lingers_until_;
  lost_handler lost_, silent_;
  bool completion_posted_ = false;
  bool peer_lost_ = false;
  bool closed_ = false;         // no operation is pending or will be accepted
  bool finished_ = false;       // no connection either
  asio::any_io_executor work_;  // an open link keeps its loop running
};

}  // namespace tandem::rails
