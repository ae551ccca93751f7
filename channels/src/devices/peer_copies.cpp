#include "devices/peer_copies.hpp"

namespace tandem::devices {
namespace {

using std::chrono::milliseconds;
constexpr std::size_t mib = std::size_t{1} << 20;

constexpr std::size_t long_copy_bytes = 16 * mib;
// Over NVLink 4 MiB take as long as submitting the next call, and 16 MiB take 42 us: the wait of an
// 8 byte message behind longer ones (`bench/gpu_beside`). An engine is idle for some us between two
// calls (`bench/gpu_copies`); a call of 512 MiB takes 1.4 ms.
constexpr std::size_t contended_bytes = 16 * mib;
constexpr milliseconds contention_window{5};
constexpr copy_scheduler::limits short_limits{.calls = 3,
                                              .call_bytes = 4 * mib,
                                              .contended_bytes = contended_bytes,
                                              .other_window = milliseconds(0),
                                              .reader_window = contention_window};
constexpr copy_scheduler::limits long_limits{.calls = 2,
                                             .call_bytes = 512 * mib,
                                             .contended_bytes = contended_bytes,
                                             .other_window = contention_window,
                                             .reader_window = contention_window};

}  // namespace

peer_copies::engine::engine(device_watch& watch, const asio::any_io_executor& executor)
    : short_(std::make_shared<copy_scheduler>(watch, executor, short_limits)),
      long_(std::make_shared<copy_scheduler>(watch, executor, long_limits)) {
  short_->share_with(*long_);
  long_->share_with(*short_);
}

void peer_copies::engine::note_reader() noexcept {
  short_->note_reader();
  long_->note_reader();
}

void peer_copies::engine::finish() noexcept {
  short_->finish();
  long_->finish();
}

peer_copies::peer_copies(const asio::any_io_executor& executor, accelerator& by)
    : written_(watch_, executor), read_(watch_, executor), watch_(executor, by) {}

void peer_copies::copy(direction where, void* to, const void* from, std::size_t bytes,
                       device_wait& wait) {
  const engine& by = where == direction::written ? written_ : read_;
  (bytes < long_copy_bytes ? by.short_ : by.long_)->copy(to, from, bytes, wait);
}

void peer_copies::expect_reader(bool one_more) noexcept {
  written_.short_->expect_reader(one_more);
  written_.long_->expect_reader(one_more);
}

void peer_copies::note_host_copy(direction where) noexcept {
  (where == direction::written ? written_ : read_).note_reader();
}

void peer_copies::finish() noexcept {
  written_.finish();
  read_.finish();
}

}  // namespace tandem::devices
