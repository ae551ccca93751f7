#include <deque>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <utility>

#include "tcp/connect.hpp"
#include "tcp/handshake_server.hpp"

namespace tandem::tcp {

class listener::state {
 public:
  state(const asio::any_io_executor& executor, const std::string& address, std::uint16_t port,
        const settings& options)
      : executor_(executor), ready_(executor) {
    hello local;
    local.limits = protocol::offered(options);
    const secret key = pair_key(options);
    // The server calls back into this object, which outlives it: closing it ends the calls.
    server_ = std::make_shared<handshake_server>(
        listen(executor, address, port, key, options), local, key, options,
        [](const hello&) { return handshake_status::accepted; },
        [this, options](asio::ip::tcp::socket incoming, sealed::keys seal, const hello& ours,
                        const hello& remote) {
          sealed::connection over(std::move(incoming), std::move(seal));
          std::shared_ptr<link> made = make_link(std::move(over), ours, remote, options);
          accepted_.push_back(std::make_unique<link_channel>(std::move(made)));
          ready_.notify_all();
        });
    server_->run();
  }
  ~state() { server_->close(); }

  asio::awaitable<std::unique_ptr<channel>> accept(std::shared_ptr<state> self) {
    while (self->accepted_.empty()) {
      if (self->closed_) throw error(errc::channel_closed, "the listener is closed");
      co_await self->ready_.wait();
    }
    std::unique_ptr<channel> incoming = std::move(self->accepted_.front());
    self->accepted_.pop_front();
    co_return incoming;
  }

  void close() noexcept {
    closed_ = true;
    server_->close();
    accepted_.clear();
    ready_.notify_all();
  }
  const handshake_server& listen_endpoint() const noexcept { return *server_; }

 private:
  asio::any_io_executor executor_;
  async_condition ready_;
  std::deque<std::unique_ptr<channel>> accepted_;
  std::shared_ptr<handshake_server> server_;
  bool closed_ = false;
};

listener::listener(asio::any_io_executor executor, const std::string& address, std::uint16_t port,
                   const settings& options)
    : state_(std::make_shared<state>(executor, address, port, options)) {}
listener::~listener() {
  close();
}
listener::listener(listener&&) noexcept = default;
listener& listener::operator=(listener&& other) noexcept {
  close();
  state_ = std::move(other.state_);
  return *this;
}

std::uint16_t listener::port() const noexcept {
  return state_->listen_endpoint().at().port();
}
std::uint64_t listener::rejected_connections() const noexcept {
  return state_->listen_endpoint().rejected_connections();
}
asio::awaitable<std::unique_ptr<channel>> listener::accept() {
  return state_->accept(state_);
}
void listener::close() noexcept {
  if (state_) state_->close();
}

}  // namespace tandem::tcp
