#pragma once

#include <infiniband/verbs.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/error.hpp>
#include <vector>

#include "transports/rails/verbs/owned.hpp"
#include "transports/rails/verbs/ports.hpp"
#include "transports/rails/verbs/registry.hpp"

namespace tandem::verbs {

namespace asio = boost::asio;

/// The local end of a lane: a port of a device, and its GID.
struct device_port {
  std::string device;
  std::uint8_t port = 1;
  int gid_index = 0;
};

/// One opened RDMA device, shared by all lanes of a rank over one GID of it, with its protection
/// domain and the memory registered there. Passes the device's asynchronous events to them. Used
/// on its executor only. Closed with its last user.
///
/// One protection domain for all peers: memory is registered once, and its key is valid on the
/// lanes of every peer, all of which have proven the job's secret.
class adapter : public std::enable_shared_from_this<adapter> {
 public:
  /// Receives the events of queue pairs, of the port and of the device.
  class device_observer {
   public:
    /// @param pair  null: the port or the device as a whole
    virtual void on_device_event(ibv_event_type what, const ibv_qp* pair) = 0;
    /// The GID has changed: lanes over it cannot reach their peers any more. `why` says what to do.
    virtual void on_gid_lost(const std::string& why) = 0;

   protected:
    ~device_observer() = default;
  };

  /// @par Errors `errc::unreachable`: no such device or GID, or it cannot be opened: the call, the
  /// reason, what to do.
  static std::shared_ptr<adapter> open(asio::any_io_executor executor,
                                       const detail::ibverbs& driver, const device_port& at);

  const detail::ibverbs& driver() const noexcept { return driver_; }
  const device_port& at() const noexcept { return at_; }
  ibv_context* context() const noexcept { return context_.get(); }
  ibv_pd* domain() const noexcept { return domain_.get(); }
  registry& memory() noexcept { return memory_; }
  const asio::any_io_executor& get_executor() const noexcept { return executor_; }
  const ibv_device_attr& attributes() const noexcept { return device_; }
  /// The current attributes: link layer, LID, MTU.
  ibv_port_attr port() const;
  /// As it was when the device was opened.
  const gid_bytes& gid() const noexcept { return gid_.raw; }
  /// "rxe0 port 1, GID 1 (RoCE v2, 10.9.0.1)".
  const std::string& text() const noexcept { return text_; }
  /// False: the device has failed or was removed, or its GID has changed. New lanes need it opened
  /// again.
  bool is_usable() const noexcept { return !failed_ && !lost_gid_; }

  /// Reads the pending events of the device and notifies at once.
  void read_events();
  void add(device_observer* observer) { observers_.push_back(observer); }
  void remove(device_observer* observer) noexcept { std::erase(observers_, observer); }
  /// No more events are delivered, so that nothing keeps the loop running.
  void close() noexcept;

  adapter(asio::any_io_executor executor, const detail::ibverbs& driver, device_port at,
          owned_context context, owned_pd domain);

 private:
  ibv_port_attr query_port(std::uint8_t number) const;
  std::vector<gid_entry> read_table() const;
  void find_gid();
  void check_gid();
  template <class Notification>
  void notify(Notification notification);
  void wait_for_event();

  const asio::any_io_executor executor_;
  const detail::ibverbs& driver_;
  const device_port at_;
  owned_context context_;
  owned_pd domain_;
  registry memory_;
  ibv_device_attr device_{};
  gid_entry gid_;
  std::string text_;
  bool failed_ = false;
  bool lost_gid_ = false;
  asio::posix::stream_descriptor events_;
  std::vector<device_observer*> observers_;
};

/// The error for a failed libibverbs call with errno `number`.
error call_failed(std::string_view call, int number, const std::string& where);

}  // namespace tandem::verbs
