#include <deque>
#include <tandem/channels/tcp.hpp>
#include <tandem/event.hpp>
#include <utility>

#include "tcp/connect.hpp"
#include "tcp/greeter.hpp"

namespace tandem::tcp {

class listener::state {
 public:
  state(const asio::any_io_executor& executor, const std::string& address, std::uint16_t port,
        const settings& options)
      : executor_(executor), ready_(executor) {
    hello mine;
    mine.limits = protocol::offered(options);
    const secret key = pair_key(options);
    // The server calls back into this object, which outlives it: closing it ends the calls.
    door_ = std::make_shared<greeter>(
        listen(executor, address, port, key, options), mine, key, options,
        [](const hello&) { return verdict::welcome; },
        [this, options](asio::ip::tcp::socket guest, sealed::keys seal, const hello& ours,
                        const hello& theirs) {
          sealed::connection over(std::move(guest), std::move(seal));
          std::shared_ptr<link> made = make_link(std::move(over), ours, theirs, options);
          guests_.push_back(std::make_unique<link_channel>(std::move(made)));
          ready_.notify_all();
        });
    door_->run();
  }
  ~state() { door_->close(); }

  asio::awaitable<std::unique_ptr<channel>> accept(std::shared_ptr<state> self) {
    while (self->guests_.empty()) {
      if (self->closed_) throw error(errc::channel_closed, "the listener is closed");
      co_await self->ready_.wait();
    }
    std::unique_ptr<channel> guest = std::move(self->guests_.front());
    self->guests_.pop_front();
    co_return guest;
  }

  void close() noexcept {
    closed_ = true;
    door_->close();
    guests_.clear();
    ready_.notify_all();
  }
  const greeter& door() const noexcept { return *door_; }

 private:
  asio::any_io_executor executor_;
  event ready_;
  std::deque<std::unique_ptr<channel>> guests_;
  std::shared_ptr<greeter> door_;
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
  return state_->door().at().port();
}
std::uint64_t listener::strangers() const noexcept {
  return state_->door().strangers();
}
asio::awaitable<std::unique_ptr<channel>> listener::accept() {
  return state_->accept(state_);
}
void listener::close() noexcept {
  if (state_) state_->close();
}

}  // namespace tandem::tcp
