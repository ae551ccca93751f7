#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tandem/detail/cancellable.hpp>
#include <vector>

#include "transports/rails/core.hpp"
#include "transports/rails/lane_set.hpp"
#include "transports/rails/nic/lane_connection.hpp"

namespace tandem::rails {

/// Connects the missing lanes of one link, each repeatedly until it is up. The side that waits for
/// the peer's connections checks instead, while no lane is up, whether the peer still listens: it
/// has no other way to detect that the peer is gone. Used on the link's executor.
class lane_connector {
 public:
  /// Connects a lane under an epoch and sets its name. Throws `connection_refused` where the peer
  /// no longer listens.
  using connect_function = std::function<asio::awaitable<std::unique_ptr<lane_connection>>(
      std::uint16_t lane, std::uint32_t epoch, std::string& name)>;
  /// Throws as a `connect_function`.
  using probe_function = std::function<asio::awaitable<void>()>;

  /// The link, which is kept alive by running attempts.
  class owner {
   public:
    virtual std::shared_ptr<void> keep_alive() = 0;
    /// False: it has ended or is about to.
    virtual bool wants_lanes() const noexcept = 0;
    virtual void connected(std::uint16_t lane, std::uint32_t epoch,
                           std::unique_ptr<lane_connection> over, std::string name) = 0;
    /// The peer no longer listens, and no lane is up.
    virtual void refused() = 0;

   protected:
    ~owner() = default;
  };

  lane_connector(asio::any_io_executor executor, const core& state, const lane_set& lanes,
                 owner& of);

  /// @param connect  empty: the peer connects
  /// @param probe  empty: not known where the peer listens
  void use(connect_function connect, probe_function probe);
  bool connects() const noexcept { return static_cast<bool>(connect_); }
  /// Starts an attempt for every missing lane, or a probe, unless one is running.
  void start();
  void cancel();

 private:
  void probe_when_alone();
  asio::awaitable<void> connect_lane(std::uint16_t index);
  asio::awaitable<void> connect_once(std::uint16_t index);
  asio::awaitable<void> probe_peer();
  asio::awaitable<void> retry(std::function<asio::awaitable<void>()> once,
                              std::function<bool()> is_enough);
  /// Owns the link.
  std::shared_ptr<lane_connector> shared() { return {owner_.keep_alive(), this}; }

  const asio::any_io_executor executor_;
  const core& core_;
  const lane_set& lanes_;
  owner& owner_;
  connect_function connect_;
  probe_function probe_;
  std::vector<std::shared_ptr<cancellable>> attempts_;  // by lane; null: none
  std::shared_ptr<cancellable> active_probe_;
};

}  // namespace tandem::rails
