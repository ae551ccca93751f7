#include <tandem/channels.hpp>
#include <utility>

#include "fabric/accept_queue.hpp"
#include "fabric/handshake_server.hpp"
#include "fabric/tcp_connect.hpp"
#include "transports/tcp/mesh.hpp"

namespace tandem::tcp {

class listener::state {
 public:
  state(const asio::any_io_executor& executor, const std::string& address, std::uint16_t port,
        const settings& options)
      : accepted_(std::make_shared<transport::accept_queue>(executor)) {
    transport::hello local;
    local.limits = protocol::offered(options);
    const secret key = transport::pair_key(options);
    server_ = std::make_shared<transport::handshake_server>(
        transport::listen(executor, address, port, key, options), local, key, options,
        [](const transport::hello&) { return transport::handshake_status::accepted; },
        [queue = accepted_, options](asio::ip::tcp::socket incoming, sealed::keys seal,
                                     const transport::hello& ours, const transport::hello& remote) {
          sealed::connection over(std::move(incoming), std::move(seal));
          std::shared_ptr<link> made = make_link(std::move(over), ours, remote, options);
          queue->push(std::make_unique<link_channel>(std::move(made)));
        });
    server_->run();
  }
  ~state() { server_->close(); }

  asio::awaitable<std::unique_ptr<channel>> accept() {
    return transport::accept_queue::pop(accepted_);
  }
  void close() noexcept {
    server_->close();
    accepted_->close();
  }
  const transport::handshake_server& listen_endpoint() const noexcept { return *server_; }

 private:
  const std::shared_ptr<transport::accept_queue> accepted_;
  std::shared_ptr<transport::handshake_server> server_;
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
  return state_->accept();
}
void listener::close() noexcept {
  if (state_) state_->close();
}

}  // namespace tandem::tcp
