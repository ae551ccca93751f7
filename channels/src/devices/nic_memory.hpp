#pragma once

#include <cstdint>
#include <functional>
#include <tandem/accelerator.hpp>
#include <tandem/region.hpp>
#include <unordered_map>

namespace tandem::devices {

/// What the NICs below a fabric's channels are to reach: the allocations of devices, each whole and
/// from its first long message on, and the links' staging.
///
/// Memory that was freed stays registered, and as good as taken, until an allocation is new: then
/// all that is gone is found, by the numbers that drivers give allocations. One thread.
class nic_memory {
 public:
  using registrar = std::function<region(mutable_view memory, const dmabuf& exported)>;
  /// @param most  allocations; the one that was used least lately goes
  explicit nic_memory(registrar by, std::size_t most = 256) : by_(std::move(by)), most_(most) {}
  /// Nothing is registered from here on.
  void close() noexcept { by_ = nullptr; }

  /// Has the allocation of this view registered, if it is not and can be; why it cannot the log
  /// says once for each. @param of  the view's device
  void add(accelerator& of, const const_view& view);
  /// Of memory that is there for longer than the result.
  region add_host(mutable_view memory);

  std::size_t allocations() const noexcept { return known_.size(); }

 private:
  struct entry {
    accelerator* of = nullptr;
    const void* base = nullptr;
    std::uint64_t used = 0;
    region memory;
  };
  void forget_what_is_gone();
  void make_room();
  region register_all(accelerator& of, const accelerator::range& all);

  registrar by_;
  const std::size_t most_;
  std::unordered_map<std::uint64_t, entry> known_;  // by the driver's number
  std::uint64_t uses_ = 0;
};

}  // namespace tandem::devices
