#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tandem/accelerator.hpp>
#include <vector>

#include "shared_memory/process_descriptors.hpp"

namespace tandem::devices {

/// Pages of device memory, by a descriptor of the owner's process.
struct described_pages {
  std::uint32_t descriptor = 0;
  std::uint64_t bytes = 0;
};

/// An allocation of device memory, as its owner describes it to a peer that may read it: one with
/// an IPC handle, or several of pages that are mapped one after the other
/// (`accelerator::export_pages`).
struct shared_allocation {
  std::uint32_t id = 0;  ///< chosen by the owner: generation << 16 | slot
  memory_kind kind = memory_kind::cuda;
  std::string uuid;        ///< of the device
  std::uint64_t base = 0;  ///< its address in the owner's process
  std::uint64_t bytes = 0;
  /// Empty where both ends are one process; of pages: the process that has the descriptors.
  accelerator::handle handle{};
  std::vector<described_pages> pages = {};
  std::size_t page_count = 0;  ///< of `pages` when all of them have arrived
};

/// Writes the process whose descriptors the pages have into the handle, and reads it.
void set_owner_of_pages(shared_allocation& of, const shm::process_number& owner);
shm::process_number owner_of_pages(const shared_allocation& of);

/// A location in a described allocation, valid at both ends.
struct shared_location {
  std::uint32_t allocation = 0;
  std::uint64_t offset = 0;
};

/// The vendors of devices, for tables with an entry for each.
inline constexpr std::array vendors{memory_kind::cuda, memory_kind::hip};
constexpr std::size_t vendor_index(memory_kind vendor) noexcept {
  return vendor == memory_kind::cuda ? 0 : 1;
}

/// Of one shared allocation: 5 GiB of PyTorch's segments of 20 MiB.
constexpr std::size_t max_described_pages = 256;

/// Allocations that an owner describes to one peer at a time; slots are below it.
constexpr std::uint32_t max_shared_allocations = 256;

constexpr std::uint32_t slot_of(std::uint32_t id) noexcept {
  return id & 0xffff;
}

/// The host and process of an end of a channel.
struct process_location {
  std::array<std::byte, 16> host{};     ///< equal where processes may share memory
  std::array<std::byte, 16> process{};  ///< unique over all hosts

  static process_location here();
  bool operator==(const process_location&) const = default;
};

/// The location of an end that must not share memory with its peer.
constexpr process_location unshared_location{};

/// How an end can access the device memory of the other.
enum class peer_access : std::uint8_t {
  none,          ///< not at all: messages are forwarded through the hosts
  same_process,  ///< by address: both ends are in one process
  mapped,        ///< by IPC handles, which map allocations into this process
};

/// @param why  set to the reason for `none`
peer_access choose_peer_access(const process_location& mine, const process_location& theirs,
                               std::string& why);

/// Whether their processes may share memory.
bool is_one_host(const process_location& mine, const process_location& theirs) noexcept;

}  // namespace tandem::devices
