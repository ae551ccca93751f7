#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>

#include "rails/wire.hpp"
#include "verbs/endpoint.hpp"

namespace tandem::verbs {

/// A connected endpoint as a lane. The TCP connection of the setup stays open: its end shows that
/// the peer is gone, as soon as the peer's kernel closes it.
///
/// Completions are polled whenever the loop polls. Before the loop blocks, the completion queue is
/// armed and polled once more; then its descriptor is waited on with all others.
class wire final : public rails::wire, private adapter::listener {
 public:
  wire(std::unique_ptr<endpoint> over, asio::ip::tcp::socket lifeline);
  ~wire() override;

  ssize_t send(std::span<const iovec> parts) override;
  bool flush() override { return true; }
  bool has_unsent() const noexcept override { return false; }
  ssize_t receive(std::span<const iovec> buffers) override;
  bool holds_more() const noexcept override { return state_->over->any_arrived(); }
  std::uint64_t received_bytes() const noexcept override { return state_->over->received_bytes(); }
  std::string describe(int number) const override;
  std::string trouble() override;
  void wait_read(handler come) override;
  void wait_write(handler go_on) override;
  void close(bool reset) noexcept override;
  bool is_on(const rails::nic& which) const override;
  bool guards_bytes() const noexcept override { return guards_bytes_; }
  const void* domain() const noexcept override { return on_.get(); }
  std::shared_ptr<const rails::reached_memory> reach(mutable_view what, bool by_peer) override {
    return state_->over->reach(what, by_peer);
  }
  bool reaches(const const_view& what) override { return state_->over->reaches(what); }
  std::size_t most_placed_bytes() const noexcept override {
    return state_->over->most_placed_bytes();
  }
  bool place(std::span<const std::byte> head, const rails::placement& what) override;
  void on_placed(token_handler done) override { state_->placed = std::move(done); }
  bool is_quiet() const noexcept override { return state_->is_quiet; }
  void when_quiet(std::function<void()> done) override { state_->quiet = std::move(done); }
  /// Payload checksums are used although each packet has its ICRC.
  void distrust() noexcept { guards_bytes_ = false; }

 private:
  /// Shared with pending waits on descriptors and with the drain of a closed lane, which outlives
  /// its connection. No handler of `wait_read` is stored here: its owner would keep itself alive.
  struct state {
    state(std::unique_ptr<endpoint> with, asio::ip::tcp::socket line);
    ~state();
    void watch_lifeline(const std::shared_ptr<state>& self);
    bool look();
    void wake();
    void farewell(const std::shared_ptr<state>& self);
    void tell_placed();
    void tell_quiet();
    /// The result for a wait handler.
    error_code outcome() const noexcept {
      return closed ? error_code(asio::error::operation_aborted) : error_code();
    }
    asio::any_io_executor get_executor() { return lifeline.get_executor(); }

    std::unique_ptr<endpoint> over;
    asio::ip::tcp::socket lifeline;
    asio::posix::stream_descriptor queue;
    asio::steady_timer clock;
    asio::steady_timer room;  // never expires; cancelled when sending may continue
    std::chrono::steady_clock::time_point patient_until;
    bool peer_left = false;
    bool closed = false;
    bool stopped = false;
    bool is_quiet = false;
    token_handler placed;
    std::function<void()> quiet;  // set only between `close` and the end of the drain
  };

  void device_says(ibv_event_type what, const ibv_qp* pair) override;
  void gid_lost(const std::string& why) override;
  const std::string& cause() const;

  const std::shared_ptr<state> state_;
  const std::shared_ptr<adapter> on_;
  bool guards_bytes_ = true;    // each packet has its ICRC
  std::size_t front_read_ = 0;  // bytes of the front record
};

}  // namespace tandem::verbs
