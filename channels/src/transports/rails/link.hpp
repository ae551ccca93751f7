#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <tandem/channel.hpp>
#include <vector>

#include "link/link_base.hpp"
#include "protocol/session.hpp"
#include "transports/rails/core.hpp"
#include "transports/rails/device_copier.hpp"
#include "transports/rails/lane_connector.hpp"
#include "transports/rails/lane_set.hpp"
#include "transports/rails/liveness/monitor.hpp"
#include "transports/rails/nic/lane_connection.hpp"
#include "transports/rails/nic/nic.hpp"
#include "transports/rails/registration_cache.hpp"

namespace tandem::rails {

/// Constructed before the `link_base` of a link, which refers to the core's session.
struct core_member {
  core core_;
};

/// Does the I/O of the core of one channel: one connection for each lane, replaced when it is lost.
class link final : private core_member,
                   public transport::link_base,
                   private lane_set::owner,
                   private lane_connector::owner,
                   private protocol::view_writer,
                   private memory_registrar {
 public:
  link(asio::any_io_executor executor, const protocol::limits& agreed, protocol::identity who,
       std::chrono::steady_clock::duration operation_timeout, std::size_t lanes,
       const timeouts& bounds, bool checksums);

  /// Starts the clock, and connects missing lanes or probes the peer: as `lane_connector::use`.
  void run(lane_connector::connect_function connect, lane_connector::probe_function probe = {});
  /// Takes an authenticated connection for a lane and closes its older epochs. False where this
  /// epoch is older itself.
  bool attach(std::uint16_t lane, std::uint32_t epoch, std::unique_ptr<lane_connection> over,
              std::string name);

  /// Probes a silent peer by this. To be called before `run`.
  void use_monitor(std::shared_ptr<liveness::monitor> by) { monitor_ = std::move(by); }

  bool start(operation& op);
  const core& state() const noexcept { return core_; }
  /// This side connects the lanes; the peer accepts.
  bool connects_lanes() const noexcept { return connector_.connects(); }
  bool accepts_epoch(std::size_t index, std::uint32_t epoch) const noexcept {
    return !is_over() && index < lanes_.size() &&
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
  bool wants_lanes() const noexcept override { return !is_over() && !lingers_until_; }
  void connected(std::uint16_t lane, std::uint32_t epoch, std::unique_ptr<lane_connection> over,
                 std::string name) override;
  void refused() override { peer_lost("it no longer listens"); }
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
  void check_liveness(core::time_point now);
  void complete_soon() override { link_base::complete_soon(); }
  void broken(const std::string& why) override { protocol_violation(why); }
  void stop(const error& reason, bool notify_peer) override;
  void operations_ended() override { lanes_.flush(); }
  /// Lost lanes and the peer's timeout return the views of late sends.
  std::optional<std::uint64_t> progress() const noexcept override { return {}; }
  bool abandon_io() noexcept override;
  void on_peer_close();
  void linger();
  void finish();

  registration_cache registrations_;
  device_copier device_copier_;
  bool accepts_device_memory_ = false;  // `is_zero_copy` has returned true for device memory
  const timeouts bounds_;
  lane_set lanes_;
  lane_connector connector_;
  asio::steady_timer clock_;
  std::shared_ptr<liveness::monitor> monitor_;
  const int peer_;
  bool reported_busy_ = false;
  std::optional<core::time_point> lingers_until_;
  bool finished_ = false;  // no connection any more
};

}  // namespace tandem::rails
