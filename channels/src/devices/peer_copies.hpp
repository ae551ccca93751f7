#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <memory>
#include <tandem/accelerator.hpp>
#include <tandem/device_watch.hpp>
#include <vector>

namespace tandem::devices {

/// Copies of one device to and from the memory of other processes and devices.
///
/// Each begins with some us in which nothing moves, so copies overlap; and what is asked for while
/// some pieces of short ones are under way waits and follows as one call, which is over as a whole.
/// Between two H200, by a bare program that is not kept (`bench/gpu` has what comes of it), reading
/// 1 MiB each with 8 under way: 89 GB/s on one stream, 118 on two or more, 180 by two batches of
/// two, 272 by two of four; writing, 215 without batches. Long copies go at once, one after the
/// other: 64 MiB each 374 GB/s reading, 390 writing.
class peer_copies {
 public:
  peer_copies(const asio::any_io_executor& executor, accelerator& by);

  /// As `copier::copy`. What had to wait for its turn and fails then is told so.
  void copy(void* to, const void* from, std::size_t bytes, device_wait& wait);
  /// Blocks until nothing is being copied.
  void finish() noexcept;

 private:
  struct request {
    accelerator::piece what;
    device_wait* wait = nullptr;
  };
  /// Those that are told at once, by `device_wait::next`.
  struct told {
    void add(device_wait& wait) noexcept;

    device_wait* first = nullptr;
    device_wait* last = nullptr;
    std::shared_ptr<const error> failure;
  };
  /// Copies on one stream that are watched as one.
  struct batch {
    peer_copies* of = nullptr;
    device_stream on;
    device_wait over;
    told who;  ///< nobody: it is idle
  };

  void begin(batch& as, told& failed);
  void queue(batch& as, told& failed);
  told go_on();
  static void is_over(device_wait& of, const std::shared_ptr<const error>& failure);
  static void is_gone(device_wait& of) noexcept;
  static void tell(const told& who);

  device_stream long_;
  std::array<batch, 3> batches_;
  std::deque<request> waiting_;
  std::vector<request> next_;  // of the batch that begins
  std::vector<accelerator::piece> pieces_;
  device_watch watch_;  // which waits in the others, and goes away first
};

}  // namespace tandem::devices
