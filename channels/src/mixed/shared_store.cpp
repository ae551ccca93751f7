#include <boost/asio/post.hpp>
#include <optional>
#include <utility>

#include "mixed/fabric.hpp"

namespace tandem::mixed {
namespace {

/// The state that the parts share.
class shared_membership : public std::enable_shared_from_this<shared_membership> {
 public:
  shared_membership(std::shared_ptr<store> underlying, asio::any_io_executor executor,
                    std::size_t parts)
      : underlying_(std::move(underlying)),
        executor_(std::move(executor)),
        handlers_(parts),
        parts_left_(parts) {}

  void listen() {
    underlying_->on_lost([weak = weak_from_this()](const error& reason) {
      if (const auto self = weak.lock()) self->notify(reason);
    });
  }
  /// All parts fail at once and with the same reason, without waiting for the store.
  void report(std::size_t part, const error& reason) noexcept {
    const auto self = shared_from_this();
    underlying_->report(reason);
    if (!loss_) notify(reason, part);
  }
  store& underlying() const noexcept { return *underlying_; }

  void set_handler(std::size_t part, store::lost_handler handler) {
    handlers_[part] = std::move(handler);
    if (!loss_ || !handlers_[part]) return;
    // As in any store: the handler is not called from inside `on_lost`.
    asio::post(executor_, [weak = weak_from_this(), part] {
      if (const auto self = weak.lock()) self->call(part);
    });
  }
  void leave(std::size_t part) noexcept {
    handlers_[part] = {};
    if (--parts_left_ == 0) underlying_->leave();
  }

 private:
  static constexpr auto no_part = static_cast<std::size_t>(-1);

  void notify(const error& reason, std::size_t skip_part = no_part) {
    if (!loss_) loss_ = reason;
    for (std::size_t part = 0; part < handlers_.size(); ++part) {
      if (part != skip_part) call(part);
    }
  }
  void call(std::size_t part) {
    if (const store::lost_handler handler = std::exchange(handlers_[part], {})) handler(*loss_);
  }

  const std::shared_ptr<store> underlying_;
  const asio::any_io_executor executor_;
  std::vector<store::lost_handler> handlers_;
  std::size_t parts_left_;
  std::optional<error> loss_;
};

class store_part final : public store {
 public:
  store_part(std::shared_ptr<shared_membership> in, std::size_t number)
      : in_(std::move(in)), number_(number) {}
  ~store_part() override {
    if (!left_) in_->set_handler(number_, {});
  }

  const launch_info& who() const noexcept override { return in_->underlying().who(); }
  std::string local_address() const override { return in_->underlying().local_address(); }
  secret data_key() const override { return in_->underlying().data_key(); }

  asio::awaitable<void> set(std::string key, std::string value) override {
    return in_->underlying().set(std::move(key), std::move(value));
  }
  asio::awaitable<std::vector<std::string>> get(std::vector<std::string> keys,
                                                std::chrono::milliseconds limit) override {
    return in_->underlying().get(std::move(keys), limit);
  }
  asio::awaitable<std::int64_t> add(std::string key, std::int64_t amount) override {
    return in_->underlying().add(std::move(key), amount);
  }

  void on_lost(lost_handler handler) override {
    if (!left_) in_->set_handler(number_, std::move(handler));
  }
  void report(const error& reason) noexcept override { in_->report(number_, reason); }
  void leave() noexcept override {
    if (std::exchange(left_, true)) return;
    in_->leave(number_);
  }

 private:
  const std::shared_ptr<shared_membership> in_;
  const std::size_t number_;
  bool left_ = false;
};

}  // namespace

std::vector<std::shared_ptr<store>> split_store(const std::shared_ptr<store>& underlying,
                                                const asio::any_io_executor& executor,
                                                std::size_t parts) {
  const auto in = std::make_shared<shared_membership>(underlying, executor, parts);
  in->listen();
  std::vector<std::shared_ptr<store>> result;
  for (std::size_t part = 0; part < parts; ++part) {
    result.push_back(std::make_shared<store_part>(in, part));
  }
  return result;
}

}  // namespace tandem::mixed
