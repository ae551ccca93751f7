#include "transports/shm/mapped_range.hpp"

#include <fmt/format.h>

#include <tandem/error.hpp>

namespace tandem::shm {
namespace {

// A memory_location: process and descriptor, inode, bytes of the buffer, offset in it.
constexpr int descriptor_bits = 32;

shared_pages::location buffer_of(const memory_location& at) noexcept {
  return {static_cast<std::uint32_t>(at[0] >> descriptor_bits), static_cast<std::uint32_t>(at[0]),
          at[1], at[2]};
}

}  // namespace

memory_location location_of(const mutable_view& memory) {
  const std::shared_ptr<const shared_pages> pages = find_shared_pages(memory.data, memory.bytes);
  if (!pages || memory.bytes == 0) return {};
  const shared_pages::location in = pages->where();
  const auto offset =
      static_cast<std::uint64_t>(static_cast<const std::byte*>(memory.data) - pages->data());
  return {std::uint64_t{in.process} << descriptor_bits | in.descriptor, in.inode, in.bytes, offset};
}

mapped_range::mapped_range(const memory_location& at, std::size_t bytes)
    : pages_(buffer_of(at), population::on_demand), offset_(at[3]), bytes_(bytes) {
  if (offset_ <= pages_.size() && bytes_ <= pages_.size() - offset_) return;
  throw error(errc::bad_input, fmt::format("{} bytes at offset {} of a shared buffer of {}", bytes_,
                                           offset_, pages_.size()));
}

}  // namespace tandem::shm
