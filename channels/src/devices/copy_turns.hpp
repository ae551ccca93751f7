#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <tandem/accelerator.hpp>
#include <tandem/detail/device_waits.hpp>
#include <tandem/device_watch.hpp>
#include <tandem/pending.hpp>
#include <tandem/poller.hpp>
#include <vector>

namespace tandem::devices {

/// Copies of one device that take turns, on a stream of their own: the first goes at once; what is
/// asked for while it is under way waits until it fills a call, or the loop has looked at all links
/// once, and follows as one call, which is over as a whole. Of a call, what lies side by side at
/// both ends is one copy.
///
/// Between two calls the engine does nothing for some us, and between the copies of one call it
/// does not stop: between two H200, 1 MiB each, calls of four are twice as fast as calls of one,
/// however many streams there are (`bench/gpu_copies`, bench/RESULTS.md). A call takes the
/// driver 2 us and another for each copy in it.
///
/// The engine serves a stream until nothing is left on it, whatever others wait for; those who read
/// from its device, and copies to the host, wait as well (two H200: 8 bytes wait for as long as
/// copies of 16 MiB follow each other, whatever the stream's priority). So while others want it, a
/// stream has one call at a time, and a long copy is cut.
class copy_turns : public std::enable_shared_from_this<copy_turns>,
                   private pending_owner,
                   private pollable {
 public:
  /// One that works, one right behind it, and one for what comes before the first is seen to be
  /// over.
  static constexpr std::size_t most_calls = 3;
  struct limits {
    std::size_t calls;          ///< at once, while nobody else wants the engine
    std::size_t call_bytes;     ///< at most, of a call for several: who is first waits for the last
    std::size_t company_bytes;  ///< of any call while others want the engine
    /// Within this, the other stream and readers are thought to come again.
    std::chrono::microseconds other_lasts, reader_lasts;
  };
  using time_point = std::chrono::steady_clock::time_point;
  using clock = time_point (*)();

  /// @param watch  on the executor; waits for what is under way, and goes away first
  copy_turns(device_watch& watch, const asio::any_io_executor& executor, const limits& of_calls,
             clock now = std::chrono::steady_clock::now);
  copy_turns(const copy_turns&) = delete;
  copy_turns& operator=(const copy_turns&) = delete;

  /// Another stream of the same engine, which goes away with this one.
  void share_with(copy_turns& other) noexcept { other_ = &other; }
  /// One more, or one less, is about to read from the device.
  void expect_reader(bool one_more) noexcept;
  /// One has asked for its copy, which takes no longer than one of these.
  void meet_reader() noexcept { last_reader_ = now_(); }

  /// As `copier::copy`. What had to wait for its turn and fails then is told so. @pre bytes > 0
  void copy(void* to, const void* from, std::size_t bytes, device_wait& wait);
  /// Asked for and not over.
  std::size_t pending_bytes() const noexcept { return waiting_bytes_ + working_bytes_; }
  /// Blocks until nothing is being copied.
  void finish() noexcept;

 private:
  struct request {
    accelerator::piece what;
    device_wait* wait = nullptr;  ///< null: the rest of it is the first of those that wait
    bool is_part = false;         ///< something of it has gone before, or follows
  };
  /// Those that are told at once.
  struct told {
    detail::device_waits waits;
    std::shared_ptr<const error> failure;
  };
  /// What is watched as one.
  struct batch {
    copy_turns* of = nullptr;
    device_wait over;
    detail::device_waits who;
    std::size_t bytes = 0;  ///< 0: it is idle
  };

  batch* idle() noexcept;
  bool has_company() const noexcept;
  void take(bool in_company);
  void begin(batch& as, told& failed);
  bool queue(batch& as, told& failed);
  void refuse(const request& which, const error& why, told& failed);
  void join_neighbours();
  void go_on_soon();
  void post();
  bool poll() override;
  void arm() override;
  void abandon() noexcept override;
  void give_up(detail::device_waits& into) noexcept;
  told go_on(bool with_full_calls = false);
  bool fills_a_call() const noexcept { return waiting_bytes_ >= limits_.call_bytes; }
  static void is_over(device_wait& of, const std::shared_ptr<const error>& failure);
  static void is_gone(device_wait& of) noexcept;

  device_watch& watch_;
  const limits limits_;
  const clock now_;
  device_stream stream_;  // made with the first copy
  copy_turns* other_ = nullptr;
  int readers_ = 0;
  time_point last_asked_{}, last_reader_{};
  std::array<batch, most_calls> batches_;
  std::deque<request> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::size_t working_bytes_ = 0;
  told refused_;               // while others were being asked for: they are told later
  std::vector<request> next_;  // of the batch that begins
  std::vector<accelerator::piece> pieces_;
  bool waits_for_look_ = false;
  bool is_posted_ = false;
};

}  // namespace tandem::devices
