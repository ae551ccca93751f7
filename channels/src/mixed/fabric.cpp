#include "mixed/fabric.hpp"

#include <fmt/format.h>

#include <boost/asio/this_coro.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "mixed/shared_store.hpp"
#include "rails/mesh.hpp"
#include "shm/mesh.hpp"

namespace tandem::mixed {
namespace {

std::string key_of(int rank) {
  return fmt::format("host/{}", rank);
}

}  // namespace

pairs::pairs(std::shared_ptr<store> meeting, settings options, std::shared_ptr<tcp::mesh> near,
             std::shared_ptr<tcp::mesh> far)
    : store_(std::move(meeting)),
      options_(std::move(options)),
      near_(std::move(near)),
      far_(std::move(far)),
      chosen_(static_cast<std::size_t>(size())),
      found_(static_cast<std::size_t>(size())) {}

asio::awaitable<void> pairs::open() {
  const auto self = shared_from_this();
  mine_.far = far_->kind();
  const bool has_near = co_await open_near();
  if (has_near) mine_.shares = shared_by_neighbours(options_);
  co_await far_->open();
  // Last: who reads it finds the doors open.
  std::string text = mine_.text();
  co_await store_->set(key_of(rank()), std::move(text));
}

asio::awaitable<bool> pairs::open_near() {
  try {
    co_await near_->open();
    co_return true;
  } catch (const error& why) {
    log(log_level::info, "mixed",
        fmt::format("rank {} shares no memory with others: {}", rank(), why.what()));
  }
  near_->close();
  co_return false;
}

asio::awaitable<std::reference_wrapper<channel>> pairs::to(int peer) {
  const auto self = shared_from_this();
  tcp::mesh* by = far_.get();  // which also refuses a peer that is none
  if (peer >= 0 && peer < size() && peer != rank()) {
    tcp::mesh*& chosen = chosen_[static_cast<std::size_t>(peer)];
    if (chosen == nullptr) {
      const std::optional<error> failure = co_await choose(peer);
      // Once the job is over, the mesh below knows better why.
      if (failure && !far_->is_over()) throw error(*failure);
    }
    if (chosen != nullptr) by = chosen;
  }
  co_return co_await by->to(peer);
}

asio::awaitable<std::optional<error>> pairs::choose(int peer) {
  try {
    std::vector<std::string> keys(1, key_of(peer));
    const std::vector<std::string> published =
        co_await store_->get(std::move(keys), options_.meet_timeout);
    const place theirs = read_place(peer, published.front());
    chosen_[static_cast<std::size_t>(peer)] =
        share_memory(mine_, theirs) ? near_.get() : far_.get();
  } catch (const error& why) {
    const error_context here{
        .rank = rank(), .peer = peer, .rail = {}, .phase = "connect", .detail = {}, .advice = {}};
    co_return with_context(why, here);
  }
  co_return std::nullopt;
}

place pairs::read_place(int peer, std::string_view published) const {
  place theirs = place::parse(published);
  if (theirs.far.empty()) {
    throw error(errc::protocol_violation, fmt::format("'{}' was published as a place", published));
  }
  if (theirs.far != mine_.far && !share_memory(mine_, theirs)) {
    throw error(errc::bad_option,
                fmt::format("across hosts rank {} speaks {}, rank {} {}", rank(), mine_.far, peer,
                            theirs.far),
                "give --rails to all ranks or to none");
  }
  return theirs;
}

channel* pairs::find(int peer) noexcept {
  channel*& found = found_[static_cast<std::size_t>(peer)];
  // Whoever of the two ranks came first has chosen for both: only one mesh has a channel.
  if (found == nullptr) found = near_->find(peer);
  if (found == nullptr) found = far_->find(peer);
  return found;
}

std::string_view pairs::kind_to(int peer) const noexcept {
  if (near_->find(peer) != nullptr) return near_->kind();
  if (far_->find(peer) != nullptr) return far_->kind();
  return "mixed";
}

void pairs::fail(const error& reason) noexcept {
  const auto self = shared_from_this();
  near_->fail(reason, true);
  far_->fail(reason, true);
}

void pairs::close() noexcept {
  const auto self = shared_from_this();
  near_->close();
  far_->close();
}

namespace {

class mixed_fabric final : public fabric {
 public:
  explicit mixed_fabric(std::shared_ptr<pairs> over) : pairs_(std::move(over)) {}
  ~mixed_fabric() override {
    if (!pairs_->is_over()) pairs_->fail(tcp::gone_without_goodbye(pairs_->rank()));
    pairs_->close();
  }

  int rank() const noexcept override { return pairs_->rank(); }
  int size() const noexcept override { return pairs_->size(); }
  asio::any_io_executor get_executor() const noexcept override { return pairs_->get_executor(); }
  std::string_view kind() const noexcept override { return "mixed"; }
  std::string_view kind_to(int peer) const noexcept override { return pairs_->kind_to(peer); }
  asio::awaitable<std::reference_wrapper<channel>> to(int peer) override {
    return pairs_->to(peer);
  }
  channel* find(int peer) noexcept override {
    return peer >= 0 && peer < pairs_->size() ? pairs_->find(peer) : nullptr;
  }
  void fail(const error& reason) noexcept override { pairs_->fail(reason); }
  void close() noexcept override { pairs_->close(); }

 private:
  std::shared_ptr<pairs> pairs_;
};

std::shared_ptr<tcp::mesh> make_near(std::shared_ptr<store> part, settings options,
                                     asio::any_io_executor executor) {
  return std::make_shared<shm::mesh>(std::move(part), std::move(options), std::move(executor));
}

std::shared_ptr<tcp::mesh> make_far(std::shared_ptr<store> part, settings options,
                                    asio::any_io_executor executor) {
  if (options.rails.empty()) {
    return std::make_shared<tcp::mesh>(std::move(part), std::move(options), std::move(executor));
  }
  return std::make_shared<rails::mesh>(std::move(part), std::move(options), std::move(executor));
}

}  // namespace

asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options, near_maker near) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const std::vector<std::shared_ptr<store>> parts = share(meeting, executor, 2);
  const auto made = std::make_shared<pairs>(meeting, options, near(parts[0], options, executor),
                                            make_far(parts[1], options, executor));
  std::unique_ptr<fabric> handle = std::make_unique<mixed_fabric>(made);
  co_await made->open();
  co_return handle;
}

asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options) {
  return make_fabric(std::move(meeting), std::move(options), make_near);
}

}  // namespace tandem::mixed
