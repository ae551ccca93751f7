#include "mixed/shared_store.hpp"

#include <boost/asio/post.hpp>
#include <optional>
#include <utility>

namespace tandem::mixed {
namespace {

/// The state that the parts share.
class shared_place : public std::enable_shared_from_this<shared_place> {
 public:
  shared_place(std::shared_ptr<store> whole, asio::any_io_executor executor, std::size_t parts)
      : whole_(std::move(whole)),
        executor_(std::move(executor)),
        handlers_(parts),
        staying_(parts) {}

  void listen() {
    whole_->on_lost([weak = weak_from_this()](const error& reason) {
      if (const auto self = weak.lock()) self->tell(reason);
    });
  }
  /// All parts fail at once and with the same reason, without waiting for the store.
  void report(std::size_t part, const error& reason) noexcept {
    const auto self = shared_from_this();
    whole_->report(reason);
    if (!news_) tell(reason, part);
  }
  store& whole() const noexcept { return *whole_; }

  void set_handler(std::size_t part, store::lost_handler handler) {
    handlers_[part] = std::move(handler);
    if (!news_ || !handlers_[part]) return;
    // As in any store: the handler is not called from inside `on_lost`.
    asio::post(executor_, [weak = weak_from_this(), part] {
      if (const auto self = weak.lock()) self->call(part);
    });
  }
  void leave(std::size_t part) noexcept {
    handlers_[part] = {};
    if (--staying_ == 0) whole_->leave();
  }

 private:
  static constexpr auto nobody = static_cast<std::size_t>(-1);

  void tell(const error& reason, std::size_t knows_it = nobody) {
    if (!news_) news_ = reason;
    for (std::size_t part = 0; part < handlers_.size(); ++part) {
      if (part != knows_it) call(part);
    }
  }
  void call(std::size_t part) {
    if (const store::lost_handler handler = std::exchange(handlers_[part], {})) handler(*news_);
  }

  const std::shared_ptr<store> whole_;
  const asio::any_io_executor executor_;
  std::vector<store::lost_handler> handlers_;
  std::size_t staying_;
  std::optional<error> news_;
};

class part_of_store final : public store {
 public:
  part_of_store(std::shared_ptr<shared_place> in, std::size_t number)
      : in_(std::move(in)), number_(number) {}
  ~part_of_store() override {
    if (!left_) in_->set_handler(number_, {});
  }

  const launch_info& who() const noexcept override { return in_->whole().who(); }
  std::string local_address() const override { return in_->whole().local_address(); }
  secret data_key() const override { return in_->whole().data_key(); }

  asio::awaitable<void> set(std::string key, std::string value) override {
    return in_->whole().set(std::move(key), std::move(value));
  }
  asio::awaitable<std::vector<std::string>> get(std::vector<std::string> keys,
                                                std::chrono::milliseconds limit) override {
    return in_->whole().get(std::move(keys), limit);
  }
  asio::awaitable<std::int64_t> add(std::string key, std::int64_t amount) override {
    return in_->whole().add(std::move(key), amount);
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
  const std::shared_ptr<shared_place> in_;
  const std::size_t number_;
  bool left_ = false;
};

}  // namespace

std::vector<std::shared_ptr<store>> share(const std::shared_ptr<store>& whole,
                                          const asio::any_io_executor& executor,
                                          std::size_t parts) {
  const auto in = std::make_shared<shared_place>(whole, executor, parts);
  in->listen();
  std::vector<std::shared_ptr<store>> result;
  for (std::size_t part = 0; part < parts; ++part) {
    result.push_back(std::make_shared<part_of_store>(in, part));
  }
  return result;
}

}  // namespace tandem::mixed
