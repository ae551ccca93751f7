#pragma once

#include <boost/asio/ip/tcp.hpp>

#include "sealed/connection.hpp"
#include "sealed/stream.hpp"
#include "transports/rails/nic/lane_connection.hpp"

namespace tandem::rails {

/// A TCP connection as a lane, plain or encrypted.
class tcp_lane_connection final : public lane_connection {
 public:
  /// @param is_standby  carries chunks only while no other lane is up
  explicit tcp_lane_connection(sealed::connection over, bool is_standby = false);

  ssize_t send(std::span<const iovec> parts) override { return bytes_.send(parts); }
  bool flush() override { return bytes_.flush(); }
  bool has_unsent() const noexcept override { return bytes_.has_unsent(); }
  ssize_t receive(std::span<const iovec> buffers) override { return bytes_.receive(buffers); }
  bool holds_more() const noexcept override { return bytes_.holds_more(); }
  std::uint64_t received_bytes() const noexcept override { return bytes_.received_bytes(); }
  std::string describe(int number) const override { return bytes_.describe(number); }
  void wait_read(handler on_readable) override;
  void wait_write(handler on_writable) override;
  void bound_unsent(int bytes) override;
  void close(bool reset) noexcept override;
  bool is_on(const nic& which) const override;
  bool is_standby() const noexcept override { return is_standby_; }

 private:
  asio::ip::tcp::socket socket_;
  sealed::stream bytes_;
  const bool is_standby_;
};

}  // namespace tandem::rails
