#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>

#include "sealed/connection.hpp"
#include "transports/rails/nic/lane_connection.hpp"
#include "transports/rails/verbs/endpoint.hpp"

namespace tandem::verbs {

/// A connected endpoint as a lane. The TCP connection of the setup stays open: its end shows that
/// the peer is gone, as soon as the peer's kernel closes it.
///
/// Completions are polled whenever the loop polls. Before the loop blocks, the completion queue is
/// armed and polled once more; then its descriptor is waited on with all others.
class lane_connection final : public rails::lane_connection, private adapter::device_observer {
 public:
  lane_connection(std::unique_ptr<endpoint> over, asio::ip::tcp::socket control_socket);
  ~lane_connection() override;

  ssize_t send(std::span<const iovec> parts) override;
  bool flush() override { return true; }
  bool has_unsent() const noexcept override { return false; }
  ssize_t receive(std::span<const iovec> buffers) override;
  bool holds_more() const noexcept override { return state_->over->any_arrived(); }
  std::uint64_t received_bytes() const noexcept override { return state_->over->received_bytes(); }
  std::string describe(int number) const override;
  std::string failure_reason() override;
  void wait_read(handler on_readable) override;
  void wait_write(handler on_writable) override;
  void close(bool reset) noexcept override;
  bool is_on(const rails::nic& which) const override;
  bool has_integrity_check() const noexcept override { return has_integrity_check_; }
  const void* domain() const noexcept override { return on_.get(); }
  std::shared_ptr<const rails::registered_memory> registration_for(mutable_view what,
                                                                   bool by_peer) override {
    return state_->over->registration_for(what, by_peer);
  }
  bool is_zero_copy(const const_view& what) override { return state_->over->is_zero_copy(what); }
  std::size_t max_placed_bytes() const noexcept override {
    return state_->over->max_placed_bytes();
  }
  bool place(std::span<const std::byte> head, const rails::placement& what) override;
  void on_placed(token_handler done) override { state_->placed_handler = std::move(done); }
  bool is_quiesced() const noexcept override { return state_->is_quiesced; }
  void on_quiesced(std::function<void()> done) override {
    state_->quiesced_handler = std::move(done);
  }
  /// Payload checksums are used although each packet has its ICRC.
  void require_checksums() noexcept { has_integrity_check_ = false; }

 private:
  /// Shared with pending waits on descriptors and with the drain of a closed lane, which outlives
  /// its connection. No handler of `wait_read` is stored here: its owner would keep itself alive.
  struct state {
    state(std::unique_ptr<endpoint> with, asio::ip::tcp::socket line);
    ~state();
    void watch_control_socket(const std::shared_ptr<state>& self);
    bool poll();
    void wake();
    void drain(const std::shared_ptr<state>& self);
    void report_placements();
    void report_quiesced();
    /// The result for a wait handler.
    error_code outcome() const noexcept {
      return closed ? error_code(asio::error::operation_aborted) : error_code();
    }
    asio::any_io_executor get_executor() { return control_socket.get_executor(); }

    std::unique_ptr<endpoint> over;
    asio::ip::tcp::socket control_socket;
    asio::posix::stream_descriptor queue;
    asio::steady_timer clock;
    asio::steady_timer send_ready;  // never expires; cancelled when sending may continue
    std::chrono::steady_clock::time_point drain_deadline;
    bool peer_closed = false;
    bool closed = false;
    bool stopped = false;
    bool is_quiesced = false;
    token_handler placed_handler;
    std::vector<std::uint64_t> spare_placements;  // for its memory
    std::function<void()> quiesced_handler;  // set only between `close` and the end of the drain
  };

  void on_device_event(ibv_event_type what, const ibv_qp* pair) override;
  void on_gid_lost(const std::string& why) override;
  const std::string& cause() const;

  const std::shared_ptr<state> state_;
  const std::shared_ptr<adapter> on_;
  bool has_integrity_check_ = true;  // each packet has its ICRC
  std::size_t front_read_ = 0;       // bytes of the front record
};

/// Sets up an RDMA lane with the peer over this authenticated connection: exchanges the queue pair
/// info, connects the queue pairs, waits until both ends are ready, and checks the path by sending
/// on both queue pairs. Both ends call it.
///
/// @par Errors `errc::unreachable`: the device, with the call that failed; `protocol_violation`,
///   `version_mismatch`: the peer's queue pair info; `peer_closed`: the connection was closed;
///   `unreachable`: the path does not work, with the reason. No timeout of its own.
asio::awaitable<std::unique_ptr<lane_connection>> establish(sealed::connection over,
                                                            std::shared_ptr<adapter> on,
                                                            queue_depths has);

}  // namespace tandem::verbs
