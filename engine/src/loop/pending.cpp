#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/query.hpp>
#include <mutex>
#include <tandem/detail/pending.hpp>

namespace tandem {

class pending_service final : public asio::execution_context::service {
 public:
  using key_type = pending_service;
  static inline asio::execution_context::id id;

  explicit pending_service(asio::execution_context& context)
      : asio::execution_context::service(context) {}

  void add(pending_owner& owner) {
    const std::lock_guard lock(mutex_);
    owner.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &owner;
    first_ = &owner;
  }

  void remove(pending_owner& owner) noexcept {
    const std::lock_guard lock(mutex_);
    if (owner.previous_ != nullptr) {
      owner.previous_->next_ = owner.next_;
    } else if (first_ == &owner) {
      first_ = owner.next_;
    }
    if (owner.next_ != nullptr) owner.next_->previous_ = owner.previous_;
    owner.next_ = owner.previous_ = nullptr;
  }

 private:
  pending_owner* pop() noexcept {
    const std::lock_guard lock(mutex_);
    pending_owner* owner = first_;
    if (owner == nullptr) return nullptr;
    first_ = owner->next_;
    if (first_ != nullptr) first_->previous_ = nullptr;
    owner->next_ = owner->previous_ = nullptr;
    return owner;
  }

  void shutdown() noexcept override {
    // Abandoning one owner may destroy others, so take the first of the list each time.
    while (pending_owner* owner = pop()) owner->abandon();
  }

  std::mutex mutex_;
  pending_owner* first_ = nullptr;
};

pending_owner::pending_owner(const asio::any_io_executor& executor)
    : service_(
          &asio::use_service<pending_service>(asio::query(executor, asio::execution::context))) {
  service_->add(*this);
}

pending_owner::~pending_owner() {
  service_->remove(*this);
}

}  // namespace tandem
