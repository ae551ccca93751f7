#pragma once

#include <tandem/fabric.hpp>

#include "shared_memory/shared_pages.hpp"

namespace tandem::shm {

/// Where other processes find this memory; zero where it is not in one `shared_buffer`.
memory_location location_of(const mutable_view& memory);

/// A part of a `shared_buffer` of another process, mapped here for loads and stores. The peer is
/// not trusted: only sealed memory of this user is mapped.
class mapped_range final : public mapped_memory {
 public:
  /// @par Errors thrown: as of `shared_pages`; `bad_input` where the range is beyond the buffer.
  mapped_range(const memory_location& at, std::size_t bytes);
  mutable_view view() const noexcept override { return {pages_.data() + offset_, bytes_}; }

 private:
  const shared_pages pages_;
  const std::size_t offset_, bytes_;
};

}  // namespace tandem::shm
