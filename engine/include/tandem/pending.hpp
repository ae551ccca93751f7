#pragma once

#include <boost/asio/any_io_executor.hpp>

namespace tandem {

namespace asio = boost::asio;

/// Something that holds operations of others which no Asio object knows of. When the execution
/// context is destroyed first, `abandon` lets it free them; otherwise a waiting coroutine and the
/// channel that it keeps alive would hold each other for ever.
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
