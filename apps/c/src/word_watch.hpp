#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <tandem/async.hpp>
#include <tandem/detail/memory_watch.hpp>

namespace tandem::c {

namespace asio = boost::asio;

/// Waits on the loop for words of pinned memory that streams write, without a call of the driver,
/// which another thread may keep locked until the stream goes on.
/// @par Executor  All calls, and its destruction, on the loop's.
class word_watch final : public std::enable_shared_from_this<word_watch>,
                         private detail::memory_watch {
 public:
  explicit word_watch(const asio::any_io_executor& executor);

  /// Until the word is at least `value` (`detail::has_reached`).
  /// @par Cancellation  Terminal: at once.
  asio::awaitable<void> reached(std::uint32_t& word, std::uint32_t value);

 private:
  struct waiting {
    std::uint32_t* word;
    std::uint32_t value;
  };

  bool look() override;
  bool is_watching() const noexcept override { return !waiting_.empty(); }

  std::list<waiting> waiting_;
  async_condition changed_;
};

}  // namespace tandem::c
