#pragma once

#include <cstdint>
#include <functional>
#include <tandem/accelerator.hpp>
#include <tandem/memory.hpp>
#include <unordered_map>

namespace tandem::devices {

/// Registers memory with the NICs below a fabric's channels: whole device allocations, each with
/// its first long message, and the staging of the links.
///
/// Freed memory stays registered, and so not reusable, until a new allocation is added: then freed
/// ones are found by the ids that drivers give allocations. One thread.
class nic_memory {
 public:
  using registrar = std::function<region(mutable_view memory, const dmabuf& exported)>;
  /// @param max_entries  allocations; the least recently used one is evicted
  explicit nic_memory(registrar by, std::size_t max_entries = 256)
      : by_(std::move(by)), max_entries_(max_entries) {}
  /// Registers nothing from here on.
  void close() noexcept { by_ = nullptr; }

  /// Registers the allocation of this view, if it is not registered yet; a failure is logged once
  /// for each allocation. @param of  the view's device
  void add(accelerator& of, const const_view& view);
  /// Registers host memory, which must outlive the result.
  region add_host(mutable_view memory);

  std::size_t allocations() const noexcept { return known_.size(); }

 private:
  struct entry {
    accelerator* of = nullptr;
    const void* base = nullptr;
    std::uint64_t used = 0;
    region memory;
  };
  void forget_freed();
  void evict();
  region register_all(accelerator& of, const accelerator::range& all);

  registrar by_;
  const std::size_t max_entries_;
  std::unordered_map<std::uint64_t, entry> known_;  // by the driver's allocation id
  std::uint64_t uses_ = 0;
};

}  // namespace tandem::devices
