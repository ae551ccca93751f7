#include <tandem/channels.hpp>
#include <utility>

#include "fabric/accept_queue.hpp"
#include "transports/shm/connect.hpp"

namespace tandem::shm {

class listener::state {
 public:
  state(const asio::any_io_executor& executor, std::string name, const settings& options)
      : name_(name.empty() ? random_name() : std::move(name)),
        accepted_(std::make_shared<transport::accept_queue>(executor)) {
    transport::hello local_hello;
    local_hello.limits = protocol::offered(options);
    server_ = std::make_shared<handshake_server>(
        listen(executor, name_), local_hello, transport::pair_key(options), options,
        [](const transport::hello&) { return transport::handshake_status::accepted; },
        [queue = accepted_, options](control_socket socket, const sealed::keys&,
                                     const transport::hello& ours,
                                     const transport::hello& remote_hello) {
          std::shared_ptr<link> made = make_link(std::move(socket), 1, ours, remote_hello, options);
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
  const std::string& name() const noexcept { return name_; }
  std::uint64_t rejected_connections() const noexcept { return server_->rejected_connections(); }

 private:
  const std::string name_;
  const std::shared_ptr<transport::accept_queue> accepted_;
  std::shared_ptr<handshake_server> server_;
};

listener::listener(asio::any_io_executor executor, const std::string& name, const settings& options)
    : state_(std::make_shared<state>(executor, name, options)) {}
listener::~listener() {
  close();
}
listener::listener(listener&&) noexcept = default;
listener& listener::operator=(listener&& other) noexcept {
  close();
  state_ = std::move(other.state_);
  return *this;
}

const std::string& listener::name() const noexcept {
  return state_->name();
}
std::uint64_t listener::rejected_connections() const noexcept {
  return state_->rejected_connections();
}
asio::awaitable<std::unique_ptr<channel>> listener::accept() {
  return state_->accept();
}
void listener::close() noexcept {
  if (state_) state_->close();
}

}  // namespace tandem::shm
