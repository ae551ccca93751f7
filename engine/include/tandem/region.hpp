#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tandem/memory.hpp>
#include <utility>

namespace tandem {

/// Under which memory of a device is known to the other devices of its machine: an open dma-buf
/// (`cuMemGetHandleForAddressRange`, `hsa_amd_portable_export_dmabuf`). Whoever gives it closes it,
/// at any time after it was registered.
struct dmabuf {
  int descriptor = -1;             ///< negative: none
  std::uint64_t offset_bytes = 0;  ///< where the memory begins in it
};

/// Memory that a fabric's NICs may read and write without the processor, for as long as this lives:
/// whatever is sent from it or received into it needs no copy where a lane can do without.
///
/// The memory must stay where it is for as long as this lives, and until every operation on it has
/// completed. A peer that was once told of a receive in it can write to all of it until this ends:
/// register what such a job may share, and nothing else. Move-only; ends on the fabric's executor.
class region {
 public:
  /// What the fabric keeps for it.
  class record {
   public:
    virtual ~record() = default;
    /// How each NIC reaches it, or why not.
    virtual std::string describe() const = 0;
  };

  region() = default;
  region(mutable_view memory, std::unique_ptr<record> by) noexcept
      : memory_(memory), record_(std::move(by)) {}

  mutable_view view() const noexcept { return memory_; }
  /// False: this fabric has no NIC that registers memory; it is used as any other.
  explicit operator bool() const noexcept { return record_ != nullptr; }
  /// "rxe0: registered host memory", a line for each device; empty where there is none.
  std::string describe() const { return record_ ? record_->describe() : std::string(); }

 private:
  mutable_view memory_;
  std::unique_ptr<record> record_;
};

}  // namespace tandem
