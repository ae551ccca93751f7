#include <deque>
#include <tandem/channels/shm.hpp>
#include <tandem/event.hpp>
#include <utility>

#include "shm/connect.hpp"

namespace tandem::shm {

class listener::state {
 public:
  state(const asio::any_io_executor& executor, std::string name, const settings& options)
      : name_(name.empty() ? random_name() : std::move(name)), ready_(executor) {
    tcp::hello mine;
    mine.limits = protocol::offered(options);
    // The server calls back into this object, which outlives it: closing it ends the calls.
    door_ = std::make_shared<greeter>(
        listen(executor, name_), mine, tcp::pair_key(options), options,
        [](const tcp::hello&) { return tcp::verdict::welcome; },
        [this, options](guest_socket socket, const sealed::keys&, const tcp::hello& ours,
                        const tcp::hello& theirs) {
          std::shared_ptr<link> made = make_link(std::move(socket), 1, ours, theirs, options);
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
    std::unique_ptr<channel> accepted = std::move(self->guests_.front());
    self->guests_.pop_front();
    co_return accepted;
  }

  void close() noexcept {
    closed_ = true;
    door_->close();
    guests_.clear();
    ready_.notify_all();
  }
  const std::string& name() const noexcept { return name_; }
  std::uint64_t strangers() const noexcept { return door_->strangers(); }

 private:
  const std::string name_;
  event ready_;
  std::deque<std::unique_ptr<channel>> guests_;
  std::shared_ptr<greeter> door_;
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
std::uint64_t listener::strangers() const noexcept {
  return state_->strangers();
}
asio::awaitable<std::unique_ptr<channel>> listener::accept() {
  return state_->accept(state_);
}
void listener::close() noexcept {
  if (state_) state_->close();
}

}  // namespace tandem::shm
