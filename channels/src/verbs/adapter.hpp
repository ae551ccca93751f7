#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/error.hpp>
#include <vector>

#include "verbs/owned.hpp"

namespace tandem::verbs {

namespace asio = boost::asio;

/// Where a lane begins: a port of a device, and the GID by which it is reached.
struct place {
  std::string device;
  std::uint8_t port = 1;
  int gid_index = 0;
};

/// One RDMA device, opened: what all lanes of a rank over it share. Tells them what the device says
/// by itself. One thread: that of its executor.
class adapter : public std::enable_shared_from_this<adapter> {
 public:
  /// Hears of a queue pair of its own, or of the port or device that it stands on.
  class listener {
   public:
    /// @param pair  null: the port or the device as a whole
    virtual void device_says(ibv_event_type what, const ibv_qp* pair) = 0;

   protected:
    ~listener() = default;
  };

  /// @par Errors `errc::unreachable`: no such device, or it cannot be opened: which call, why, what
  /// to do.
  static std::shared_ptr<adapter> open(asio::any_io_executor executor,
                                       const detail::ibverbs& driver, const place& at);

  const detail::ibverbs& driver() const noexcept { return driver_; }
  const place& at() const noexcept { return at_; }
  ibv_context* context() const noexcept { return context_.get(); }
  const asio::any_io_executor& get_executor() const noexcept { return executor_; }
  const ibv_device_attr& can() const noexcept { return device_; }
  /// As it is now: link layer, LID, MTU.
  ibv_port_attr port() const;
  /// As it is now, for a device's administrator may change it. @par Errors `errc::unreachable`.
  std::array<std::byte, 16> gid() const;
  /// "rxe0 port 1".
  std::string text() const;

  /// Tells at once what the device has said so far.
  void hear();
  void add(listener* who) { listeners_.push_back(who); }
  void remove(listener* who) noexcept { std::erase(listeners_, who); }
  /// Says no more, so that nothing of it keeps the loop running.
  void close() noexcept;

  adapter(asio::any_io_executor executor, const detail::ibverbs& driver, place at,
          owned_context context);

 private:
  ibv_port_attr query_port(std::uint8_t number) const;
  void listen();

  const asio::any_io_executor executor_;
  const detail::ibverbs& driver_;
  const place at_;
  owned_context context_;
  ibv_device_attr device_{};
  asio::posix::stream_descriptor events_;
  std::vector<listener*> listeners_;
};

/// The failure of a call of the library, with the words for `number` (an errno).
error call_failed(std::string_view call, int number, const std::string& where);

}  // namespace tandem::verbs
