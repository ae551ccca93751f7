#include "mixed/fabric.hpp"

#include <boost/asio/this_coro.hpp>
#include <utility>

#include "mixed/pairs.hpp"
#include "mixed/shared_store.hpp"
#include "rails/mesh.hpp"
#include "shm/mesh.hpp"

namespace tandem::mixed {
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
