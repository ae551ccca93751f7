#pragma once

#include <memory>
#include <mutex>
#include <tandem/accelerator.hpp>
#include <tandem/kernel_messages.hpp>
#include <vector>

#include "streams/slot_launch.hpp"
#include "streams/slot_relay.hpp"
#include "streams/stream_kernels.hpp"

namespace tandem {
namespace detail {

/// Where the other rank is of this process, mapping its slots does not keep them, as it does
/// between processes: a kernel here may still write to them after that rank's end.
class slots_of_process {
 public:
  static slots_of_process& get() {
    static auto& one = *new slots_of_process;  // ranks may end behind static objects
    return one;
  }
  std::shared_ptr<const buffer> make(const accelerator& on) {
    auto made = std::make_shared<const buffer>(sizeof(slot_memory), on.kind(), on.device());
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const std::weak_ptr<const buffer>& each) { return each.expired(); });
    all_.push_back(made);
    return made;
  }
  /// Null: they are of another process.
  std::shared_ptr<const buffer> find(const void* at) {
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<const buffer>& each : all_) {
      if (std::shared_ptr<const buffer> of = each.lock(); of && of->data() == at) return of;
    }
    return nullptr;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<const buffer>> all_;
};

}  // namespace detail

/// Pinned, and written by kernels.
struct kernel_messages::report {
  explicit report(accelerator& on);

  const pinned_buffer memory;
  detail::slot_report* const words;
};

/// What the kernels of this rank use, of both ranks.
struct kernel_messages::memory {
  /// The slots are made later. @par Errors thrown: `device_failed`.
  explicit memory(accelerator& on);
  ~memory() { leave(); }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;

  /// In memory of the device; those of the other rank are to be mapped.
  void make_slots();
  /// In pinned memory, for both directions.
  detail::slot_relay::memory make_relay_slots();
  /// Before kernels are launched, which count as `end` does.
  void note_launch(bool is_send) {
    if (relay) relay->expect(is_send, end.counts(is_send));
  }
  bool is_idle() const noexcept;
  /// What is left then may be destroyed on any thread. On the loop.
  void leave();

  accelerator& of;
  const std::shared_ptr<const detail::stream_kernels> kernels;
  const buffer progress;
  const std::shared_ptr<const kernel_messages::report> report;
  std::shared_ptr<const buffer> slots;  ///< null: relayed
  std::unique_ptr<const mapped_memory> other;
  std::shared_ptr<const buffer> other_slots;  ///< null: mapped from another process
  std::shared_ptr<detail::slot_relay> relay;
  detail::slot_end end;
};

}  // namespace tandem
