#pragma once

#include <boost/asio/any_io_executor.hpp>

namespace tandem {

namespace asio = boost::asio;

/// Holds pending operations that no Asio object tracks. When the execution context is destroyed
/// first, `abandon` frees them; otherwise a suspended coroutine and the channel that it keeps alive
/// would own each other and leak.
class pending_owner {
 public:
  explicit pending_owner(const asio::any_io_executor& executor);
  pending_owner(const pending_owner&) = delete;
  pending_owner& operator=(const pending_owner&) = delete;

 protected:
  ~pending_owner();

 private:
  friend class pending_service;
  virtual void abandon() noexcept = 0;

  class pending_service* service_;
  pending_owner* next_ = nullptr;
  pending_owner* previous_ = nullptr;
};

}  // namespace tandem
