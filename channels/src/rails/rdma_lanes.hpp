#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tandem/settings.hpp>
#include <vector>

#include "rails/nic.hpp"
#include "rails/selection.hpp"
#include "rails/wire.hpp"
#include "sealed/connection.hpp"
#include "verbs/credits.hpp"
#include "verbs/rdma_nics.hpp"

namespace tandem::verbs {
class adapter;
}  // namespace tandem::verbs

namespace tandem::rails {

/// What each end of a lane over RDMA has room for: slots that shorten with the chunks that travel.
verbs::room room_for(const settings& options) noexcept;

/// What the rails of one rank have of RDMA: which of them stand on a device, and the devices, each
/// opened when its first lane is set up.
class rdma_lanes {
 public:
  rdma_lanes();
  ~rdma_lanes();
  rdma_lanes(const rdma_lanes&) = delete;
  rdma_lanes& operator=(const rdma_lanes&) = delete;

  /// Looks at this machine. Nothing is found where `options.rdma` is off, or where all is to be
  /// encrypted, which no NIC does.
  /// @par Errors `errc::bad_option` where RDMA is asked for and there is none: why.
  void find(const std::vector<nic>& nics, const std::vector<rail_end>& rails,
            const settings& options);

  /// Rail number `rail` has a device.
  bool has(std::size_t rail) const noexcept;
  /// "rxe0 port 1, GID 1 (RoCE v2, 10.9.0.1)".
  const std::string& text(std::size_t rail) const;
  /// The wire of a lane over it, set up with the peer over this connection. Both ends call it.
  /// @par Errors those of `verbs::meet`, and of opening the device; `errc::timed_out`.
  asio::awaitable<std::unique_ptr<wire>> set_up(std::size_t rail, sealed::connection over);

  /// Listens to no device any more.
  void close() noexcept;

 private:
  std::shared_ptr<verbs::adapter> open(const verbs::rdma_end& end,
                                       const asio::any_io_executor& executor);
  static asio::awaitable<void> meet(sealed::connection over, std::shared_ptr<verbs::adapter> on,
                                    verbs::room has, bool always_checks,
                                    std::unique_ptr<wire>& made);

  const detail::ibverbs* driver_ = nullptr;
  std::vector<verbs::rdma_choice> choices_;  // by rail
  std::map<std::string, std::shared_ptr<verbs::adapter>> adapters_;
  verbs::room room_;
  bool always_checks_ = false;
  bool closed_ = false;
};

}  // namespace tandem::rails
