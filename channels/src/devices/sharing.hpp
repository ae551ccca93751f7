#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tandem/accelerator.hpp>

namespace tandem::devices {

/// An allocation of device memory as its owner describes it to a peer that may read it.
struct shared_allocation {
  std::uint32_t id = 0;  ///< the owner's name for it: generation << 16 | slot
  memory_kind kind = memory_kind::cuda;
  std::string uuid;        ///< of the device it is on
  std::uint64_t base = 0;  ///< its address in the owner's process
  std::uint64_t bytes = 0;
  accelerator::handle handle{};  ///< empty where both ends are one process
};

/// Where bytes lie, in words that both ends understand.
struct shared_place {
  std::uint32_t allocation = 0;
  std::uint64_t offset = 0;
};

/// Whose devices there are, where something is kept for each.
inline constexpr std::array vendors{memory_kind::cuda, memory_kind::hip};
constexpr std::size_t vendor_index(memory_kind vendor) noexcept {
  return vendor == memory_kind::cuda ? 0 : 1;
}

/// Of these an owner describes at most so many to one peer at a time; slots are below it.
constexpr std::uint32_t most_shared_allocations = 256;

constexpr std::uint32_t slot_of(std::uint32_t id) noexcept {
  return id & 0xffff;
}

/// Which process of which machine an end of a channel lives in.
struct whereabouts {
  std::array<std::byte, 16> host{};     ///< the same where processes may share memory
  std::array<std::byte, 16> process{};  ///< no other process of any machine has it

  static whereabouts here();
  bool operator==(const whereabouts&) const = default;
};

/// Of an end that shares no memory with its peer.
constexpr whereabouts forwarding{};

/// How an end may read the device memory of the other.
enum class reading : std::uint8_t {
  none,      ///< not at all: its messages are forwarded through the hosts
  in_place,  ///< by the address itself: both ends are one process
  mapped,    ///< by handles that map allocations into this process
};

/// @param why  what stands in the way, for `none`
reading choose_reading(const whereabouts& mine, const whereabouts& theirs, std::string& why);

/// Their processes may share memory.
bool is_one_host(const whereabouts& mine, const whereabouts& theirs) noexcept;

}  // namespace tandem::devices
