#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tandem/memory.hpp>
#include <tandem/settings.hpp>
#include <vector>

#include "sealed/connection.hpp"
#include "transports/rails/nic/lane_connection.hpp"
#include "transports/rails/nic/nic.hpp"
#include "transports/rails/nic/selection.hpp"
#include "transports/rails/verbs/credits.hpp"
#include "transports/rails/verbs/rdma_nics.hpp"

namespace tandem::verbs {
class adapter;
class regions;
}  // namespace tandem::verbs

namespace tandem::rails {

/// The queue depths of one end of an RDMA lane; the slot size follows `settings::chunk_bytes`.
verbs::queue_depths queue_depths_for(const settings& options) noexcept;

/// RDMA of the rails of one rank: which of them have a device, and the opened devices. A device is
/// opened when its first lane is set up and closed with its last one. A device that failed or was
/// removed is found again once it is back, and a reconnected lane uses the GID that the port then
/// has.
class rdma_lanes {
 public:
  rdma_lanes();
  ~rdma_lanes();
  rdma_lanes(const rdma_lanes&) = delete;
  rdma_lanes& operator=(const rdma_lanes&) = delete;

  /// Discovers the devices of this machine. None is used where `options.rdma` is off, or with
  /// `options.encrypt`, as NICs do not encrypt RDMA traffic.
  /// @par Errors `errc::bad_option` where RDMA is required and unavailable, with the reason.
  void find(const std::vector<nic>& nics, const std::vector<rail_end>& rails,
            const settings& options);

  /// True where rail number `rail` has a device, or had one at the start.
  bool has(std::size_t rail) const noexcept;
  /// "rxe0 port 1, GID 1 (RoCE v2, 10.9.0.1)", as chosen last.
  const std::string& text(std::size_t rail) const;
  /// Sets up an RDMA lane of this rail with the peer over this connection. Both ends call it.
  /// @par Errors those of `verbs::establish`, and of opening the device; `errc::unreachable`: the
  /// rail has no port or GID now, and why; `errc::timed_out`.
  asio::awaitable<std::unique_ptr<lane_connection>> set_up(std::size_t rail,
                                                           sealed::connection over);

  /// Registers memory with all of its devices, also with those opened later; null: no device.
  std::unique_ptr<region::record> register_memory(mutable_view memory, const dmabuf& exported);

  /// Stops waiting for device events.
  void close() noexcept;

 private:
  struct local_end {
    nic on;
    std::vector<nic_address> addresses;
    std::optional<verbs::rdma_end> end;
  };

  void reselect(local_end& which) const;
  std::shared_ptr<verbs::adapter> open(const verbs::rdma_end& end,
                                       const asio::any_io_executor& executor);
  static asio::awaitable<void> establish(sealed::connection over,
                                         std::shared_ptr<verbs::adapter> on,
                                         verbs::queue_depths has, bool always_checks,
                                         std::unique_ptr<lane_connection>& made);

  const detail::ibverbs* driver_ = nullptr;
  std::vector<local_end> rails_;
  std::map<std::string, std::weak_ptr<verbs::adapter>> adapters_;  // owned by the lanes
  const std::shared_ptr<verbs::regions> regions_;
  verbs::queue_depths queue_depths_;
  bool always_checks_ = false;
  bool closed_ = false;
};

}  // namespace tandem::rails
