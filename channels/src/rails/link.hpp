#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <tandem/channel.hpp>
#include <tandem/detail/pending.hpp>
#include <vector>

#include "nic/lane_connection.hpp"
#include "nic/nic.hpp"
#include "protocol/session.hpp"
#include "rails/core.hpp"
#include "rails/device_copier.hpp"
#include "rails/lane_connector.hpp"
#include "rails/lane_set.hpp"
#include "rails/registration_cache.hpp"

namespace tandem::rails {

/// Does the I/O of the core of one channel: one connection for each lane, replaced when it is lost.
/// Kept alive by its own coroutines and by its handle.
class link final : public std::enable_shared_from_this<link>,
                   private pending_owner,
                   private lane_set::owner,
                   private lane_connector::owner,
                   private protocol::view_writer,
                   private memory_registrar {
 public:
  /// Called when the peer is lost without a close frame. True: the owner will call `fail` with the
  /// right reason.
  using lost_handler = std::function<bool(const error& reason)>;

  link(asio::any_io_executor executor, const protocol::limits& agreed, protocol::identity who,
       std::chrono::steady_clock::duration operation_timeout, std::size_t lanes,
       const timeouts& bounds, bool checksums);

  /// Starts the clock, and connects missing lanes or probes the peer: as `lane_connector::use`.
  void run(lane_connector::connect_function connect, lane_connector::probe_function probe = {});
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
  bool connects_lanes() const noexcept { return connector_.connects(); }
  bool accepts_epoch(std::size_t index, std::uint32_t epoch) const noexcept {
    return !closed_ && index < lanes_.size() &&
           core_.accepts_epoch(static_cast<std::uint16_t>(index), epoch);
  }
  /// Resets a lane's connection, for an administrator or a test; it is connected again.
  void cut(std::uint16_t index);
  /// An interface has lost its link: its lanes are lost now, without waiting for a timeout.
  void carrier_lost(const nic& which);
  std::vector<rail_stats> rails() const { return lanes_.rails(); }
  /// As `channel::is_zero_copy`.
  bool is_zero_copy(const const_view& view);

 private:
  std::shared_ptr<void> keep_alive() override { return shared_from_this(); }
  bool wants_lanes() const noexcept override { return !closed_ && !lingers_until_; }
  void connected(std::uint16_t lane, std::uint32_t epoch, std::unique_ptr<lane_connection> over,
                 std::string name) override;
  void refused() override { on_peer_lost("it no longer listens"); }
  std::optional<std::uint32_t> register_for_peer(std::uint16_t lane, operation& op,
                                                 std::uint64_t bytes) override;
  std::optional<std::uint32_t> register_for_read(std::uint16_t lane, operation& op,
                                                 std::size_t at_once) override;
  void deregister(operation& op) noexcept override { registrations_.deregister(op); }
  bool fetch(const const_view& from, std::byte* to) noexcept override;
  void store(const std::byte* from, const mutable_view& to) override;
  void fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) override;
  void after_event() override;
  void apply_core_state();
  void tick();
  void arm_deadline(operation::time_point when);
  void expire();
  void complete_done();
  void complete_soon() override;
  void on_peer_lost(const std::string& how, const std::string& advice = {});
  void broken(const std::string& why) override;
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
  lane_set lanes_;
  lane_connector connector_;
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
