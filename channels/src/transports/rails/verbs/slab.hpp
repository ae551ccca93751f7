#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "transports/rails/verbs/credits.hpp"

namespace tandem::verbs {

/// The buffers of one end of a lane, in whole pages: the chunk slots, which the peer writes, and
/// the local area, which only this end's NIC accesses.
class slab {
 public:
  explicit slab(const queue_depths& has);

  std::span<std::byte> chunk_area() noexcept { return {base(), chunks_in_bytes_}; }
  std::span<std::byte> local_area() noexcept {
    return {base() + chunks_in_bytes_, all_bytes_ - chunks_in_bytes_};
  }
  std::byte* chunk_in(std::uint32_t slot) noexcept {
    return base() + std::size_t{slot} * has_.chunk_bytes;
  }
  std::byte* chunk_out(std::uint32_t slot) noexcept {
    return base() + chunks_in_bytes_ + std::size_t{slot} * has_.chunk_bytes;
  }
  std::byte* record_in(std::uint32_t slot) noexcept {
    return records_ + std::size_t{slot} * has_.record_bytes;
  }
  std::byte* record_out(std::uint32_t slot) noexcept { return record_in(has_.records + slot); }
  std::byte* update_in(std::uint32_t slot) noexcept {
    return updates_ + slot * credit_update_bytes;
  }
  std::byte* update_out(std::uint32_t slot) noexcept { return update_in(has_.updates + slot); }

 private:
  struct release {
    void operator()(std::byte* memory) const noexcept;
  };
  std::byte* base() noexcept { return memory_.get(); }

  const queue_depths has_;
  std::size_t chunks_in_bytes_ = 0, all_bytes_ = 0;
  std::unique_ptr<std::byte, release> memory_;
  std::byte* records_ = nullptr;
  std::byte* updates_ = nullptr;
};

}  // namespace tandem::verbs
