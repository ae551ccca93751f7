#include <deque>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <utility>

#include "shm/connect.hpp"

namespace tandem::shm {

class listener::state {
 public:
  state(const asio::any_io_executor& executor, std::string name, const settings& options)
      : name_(name.empty() ? random_name() : std::move(name)), ready_(executor) {
    tcp::hello local_hello;
    local_hello.limits = protocol::offered(options);
    // The server calls back into this object, which outlives it: closing it ends the calls.
    server_ = std::make_shared<handshake_server>(
        listen(executor, name_), local_hello, tcp::pair_key(options), options,
        [](const tcp::hello&) { return tcp::handshake_status::accepted; },
        [this, options](control_socket socket, const sealed::keys&, const tcp::hello& ours,
                        const tcp::hello& remote_hello) {
          std::shared_ptr<link> made = make_link(std::move(socket), 1, ours, remote_hello, options);
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
    std::unique_ptr<channel> accepted = std::move(self->accepted_.front());
    self->accepted_.pop_front();
    co_return accepted;
  }

  void close() noexcept {
    closed_ = true;
    server_->close();
    accepted_.clear();
    ready_.notify_all();
  }
  const std::string& name() const noexcept { return name_; }
  std::uint64_t rejected_connections() const noexcept { return server_->rejected_connections(); }

 private:
  const std::string name_;
  async_condition ready_;
  std::deque<std::unique_ptr<channel>> accepted_;
  std::shared_ptr<handshake_server> server_;
  bool closed_ = false;
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
  return state_->accept(state_);
}
void listener::close() noexcept {
  if (state_) state_->close();
}

}  // namespace tandem::shm
