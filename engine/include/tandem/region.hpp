#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tandem/memory.hpp>
#include <utility>

namespace tandem {

/// An open dma-buf, through which other devices of the machine access device memory
/// (`cuMemGetHandleForAddressRange`, `hsa_amd_portable_export_dmabuf`). The caller closes it, at
/// any time after registration.
struct dmabuf {
  int descriptor = -1;             ///< negative: none
  std::uint64_t offset_bytes = 0;  ///< offset of the memory in it
};

/// A memory registration with a fabric's NICs, for the lifetime of this object: data sent from it
/// or received into it is transferred zero-copy on lanes that can.
///
/// The memory must stay valid for the lifetime of this object and until every operation on it has
/// completed. A peer that was once granted a receive in it can write to all of it until this ends:
/// register only memory that the job may share. Move-only; destroy it on the fabric's executor.
class region {
 public:
  /// The fabric's record of the registration.
  class record {
   public:
    virtual ~record() = default;
    /// How each NIC accesses the memory, or why it cannot.
    virtual std::string describe() const = 0;
  };

  region() = default;
  region(mutable_view memory, std::unique_ptr<record> by) noexcept
      : memory_(memory), record_(std::move(by)) {}

  mutable_view view() const noexcept { return memory_; }
  /// False: this fabric has no NIC that registers memory; the memory is used without registration.
  explicit operator bool() const noexcept { return record_ != nullptr; }
  /// "rxe0: registered host memory", a line for each device; empty if there is none.
  std::string describe() const { return record_ ? record_->describe() : std::string(); }

 private:
  mutable_view memory_;
  std::unique_ptr<record> record_;
};

}  // namespace tandem
