#include "devices/peer_copies.hpp"

namespace tandem::devices {
namespace {

constexpr std::size_t long_copy_bytes = std::size_t{16} << 20;
constexpr copy_turns::shape of_short{.streams = 2, .call_bytes = std::size_t{16} << 20};
// As much as one copy may bring: under a millisecond over NVLink.
constexpr copy_turns::shape of_long{.streams = 1, .call_bytes = std::size_t{256} << 20};

}  // namespace

peer_copies::peer_copies(const asio::any_io_executor& executor, accelerator& by)
    : short_(std::make_shared<copy_turns>(watch_, executor, of_short)),
      long_(std::make_shared<copy_turns>(watch_, executor, of_long)),
      watch_(executor, by) {}

void peer_copies::copy(void* to, const void* from, std::size_t bytes, device_wait& wait) {
  (bytes < long_copy_bytes ? short_ : long_)->copy(to, from, bytes, wait);
}

void peer_copies::finish() noexcept {
  short_->finish();
  long_->finish();
}

}  // namespace tandem::devices
