#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tandem/region.hpp>
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
class regions;
}  // namespace tandem::verbs

namespace tandem::rails {

/// What each end of a lane over RDMA has room for: slots that shorten with the chunks that travel.
verbs::room room_for(const settings& options) noexcept;

/// What the rails of one rank have of RDMA: which of them stand on a device, and the devices. Each
/// is opened when its first lane is set up and closed with its last: one that failed or was taken
/// away is found again once it is back, and a lane that is set up anew goes by the GID that the
/// port has by then.
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

  /// Rail number `rail` has a device, or had one at first.
  bool has(std::size_t rail) const noexcept;
  /// "rxe0 port 1, GID 1 (RoCE v2, 10.9.0.1)", by the choice made last.
  const std::string& text(std::size_t rail) const;
  /// The wire of a lane over it, set up with the peer over this connection. Both ends call it.
  /// @par Errors those of `verbs::meet`, and of opening the device; `errc::unreachable`: the rail
  /// has no port or GID now, and why; `errc::timed_out`.
  asio::awaitable<std::unique_ptr<wire>> set_up(std::size_t rail, sealed::connection over);

  /// What all of its devices, now and later, let NICs read and write; null: there is none.
  std::unique_ptr<region::record> register_memory(mutable_view memory, const dmabuf& exported);

  /// Listens to no device any more.
  void close() noexcept;

 private:
  struct end_here {
    nic on;
    std::vector<nic_address> addresses;
    std::optional<verbs::rdma_end> end;
  };

  void choose_again(end_here& which) const;
  std::shared_ptr<verbs::adapter> open(const verbs::rdma_end& end,
                                       const asio::any_io_executor& executor);
  static asio::awaitable<void> meet(sealed::connection over, std::shared_ptr<verbs::adapter> on,
                                    verbs::room has, bool always_checks,
                                    std::unique_ptr<wire>& made);

  const detail::ibverbs* driver_ = nullptr;
  std::vector<end_here> rails_;
  std::map<std::string, std::weak_ptr<verbs::adapter>> adapters_;  // the lanes keep them
  const std::shared_ptr<verbs::regions> regions_;
  verbs::room room_;
  bool always_checks_ = false;
  bool closed_ = false;
};

}  // namespace tandem::rails
