#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <memory>
#include <tandem/accelerator.hpp>
#include <tandem/detail/device_waits.hpp>
#include <tandem/device_watch.hpp>
#include <tandem/poller.hpp>
#include <vector>

namespace tandem::devices {

/// Copies of one device that take turns: the first goes at once; what is asked for while it is
/// under way waits until the loop has looked at all links once, and follows as one call, which is
/// over as a whole.
///
/// Between two calls the engine does nothing for some us, and between the copies of one call it
/// does not stop: between two H200, 1 MiB each, calls of four are twice as fast as calls of one,
/// however many streams there are (`bench/gpu_copies`; README has its table).
class copy_turns : public std::enable_shared_from_this<copy_turns>, private pollable {
 public:
  static constexpr std::size_t calls_at_once = 2;  ///< one that works, one right behind it
  struct shape {
    std::size_t streams;     ///< 1: calls are done in turn; 2: at once
    std::size_t call_bytes;  ///< at most, of a call for several: who is first waits for the last
  };

  /// @param watch  on the executor; waits for what is under way, and goes away first
  copy_turns(device_watch& watch, const asio::any_io_executor& executor, const shape& how);
  copy_turns(const copy_turns&) = delete;
  copy_turns& operator=(const copy_turns&) = delete;

  /// As `copier::copy`. What had to wait for its turn and fails then is told so.
  void copy(void* to, const void* from, std::size_t bytes, device_wait& wait);
  /// Blocks until nothing is being copied.
  void finish() noexcept;

 private:
  struct request {
    accelerator::piece what;
    device_wait* wait = nullptr;
  };
  /// Those that are told at once.
  struct told {
    detail::device_waits waits;
    std::shared_ptr<const error> failure;
  };
  /// What is watched as one.
  struct batch {
    copy_turns* of = nullptr;
    device_stream* on = nullptr;
    device_wait over;
    detail::device_waits who;  ///< nobody: it is idle
  };

  batch* idle() noexcept;
  bool is_working() const noexcept;
  void begin(batch& as, told& failed);
  void queue(batch& as, told& failed);
  void go_on_soon();
  void post();
  bool poll() override;
  void arm() override;
  told go_on();
  static void is_over(device_wait& of, const std::shared_ptr<const error>& failure);
  static void is_gone(device_wait& of) noexcept;

  device_watch& watch_;
  const std::size_t call_bytes_;
  std::vector<device_stream> streams_;
  std::array<batch, calls_at_once> batches_;
  std::deque<request> waiting_;  // nobody while nothing is under way
  std::vector<request> next_;    // of the batch that begins
  std::vector<accelerator::piece> pieces_;
  bool waits_for_look_ = false;
  bool is_posted_ = false;
};

}  // namespace tandem::devices
