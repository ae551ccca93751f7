#include "transports/shm/memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <tandem/async.hpp>
#include <tandem/error.hpp>

#include "shared_memory/sealed_file.hpp"

namespace tandem::shm {
namespace {

constexpr std::size_t control_blocks_bytes = 4096;
constexpr std::size_t control_block_stride = 2048;
static_assert(sizeof(control_block) <= control_block_stride);

constexpr std::size_t total_bytes(std::size_t ring_bytes) noexcept {
  return control_blocks_bytes + 2 * ring_bytes;
}

error no_memory(std::size_t bytes, int code) {
  const error why = no_shared_memory(bytes, code);
  error_context more = why.context();
  if (code != EMFILE && code != ENFILE) more.advice += ", or lower --shm-ring-bytes";
  return error(why.code(), std::move(more));
}

constexpr std::size_t usual_ring_bytes = 1024 * 1024;
constexpr std::size_t max_automatic_bytes = 4 * usual_ring_bytes;
constexpr std::size_t all_rings_bytes = 64 * usual_ring_bytes;  // of one rank, one way

/// Larger than a second level cache: when the writer wraps around, its lines have left the reader's
/// cache and need not be fetched from there one by one. Measured on two cores of an AMD EPYC with
/// 1 MiB each, half a round trip of 64 KiB in us by ring size: 7.3 (512 KiB), 4.2 (1 MiB), 2.6 (2
/// and 4 MiB), 3.5 (8 MiB). No gain for ranks that share cores: four on these two, all_reduce of 1
/// MiB in us 263 (512 KiB), 260 (1 MiB), 295 (2 MiB), of 16 KiB 28, 31 and 28.
std::size_t automatic_ring_bytes(int ranks) noexcept {
  if (spin_policy_for(ranks, {}).crowded) return usual_ring_bytes;
  const long cache = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  const std::size_t beyond = cache > 0 ? std::bit_ceil(static_cast<std::size_t>(cache) + 1) : 0;
  const std::size_t share = std::bit_floor(all_rings_bytes / static_cast<std::size_t>(ranks));
  return std::min(std::clamp(beyond, usual_ring_bytes, max_automatic_bytes), share);
}

}  // namespace

std::size_t ring_bytes_for(std::size_t asked_bytes, int ranks) noexcept {
  return asked_bytes != 0 ? asked_bytes : automatic_ring_bytes(std::max(ranks, 2));
}

memory memory::create(std::size_t ring_bytes) {
  ring_bytes = std::bit_ceil(std::clamp(ring_bytes, min_ring_bytes, max_ring_bytes));
  const std::size_t total = total_bytes(ring_bytes);
  descriptor file = make_sealed_file("tandem", total);
  if (!file.is_open()) throw no_memory(total, errno);
  return memory(std::move(file), ring_bytes);
}

memory memory::open(descriptor from) {
  const long long bytes = sealed_bytes(from);
  if (bytes < 0) {
    throw error(errc::protocol_violation, "the descriptor it passed is not sealed memory");
  }
  const auto total = static_cast<std::size_t>(bytes);
  const std::size_t ring_bytes =
      total < control_blocks_bytes ? 0 : (total - control_blocks_bytes) / 2;
  const bool fits = std::has_single_bit(ring_bytes) && ring_bytes >= min_ring_bytes &&
                    ring_bytes <= max_ring_bytes && total_bytes(ring_bytes) == total;
  if (!fits) {
    throw error(errc::protocol_violation,
                fmt::format("the memory it passed has {} bytes, not the size of two rings", bytes));
  }
  return memory(std::move(from), ring_bytes);
}

/// Pages are populated on demand: many pairs of ranks exchange little. Huge pages were tried and
/// did not help.
memory::memory(descriptor file, std::size_t ring_bytes)
    : file_(std::move(file)), ring_bytes_(ring_bytes) {
  const std::size_t total = total_bytes(ring_bytes);
  base_ = map_file(file_, total, population::on_demand);
  if (base_ == nullptr) throw no_memory(total, errno);
}

memory::memory(memory&& other) noexcept
    : file_(std::move(other.file_)),
      base_(std::exchange(other.base_, nullptr)),
      ring_bytes_(other.ring_bytes_) {}

memory& memory::operator=(memory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(base_, other.base_);
  std::swap(ring_bytes_, other.ring_bytes_);
  return *this;
}

memory::~memory() {
  unmap_file(base_, total_bytes(ring_bytes_));
}

control_block& memory::control(int side) const noexcept {
  return *reinterpret_cast<control_block*>(base_ +
                                           static_cast<std::size_t>(side) * control_block_stride);
}

ring_memory memory::ring(int side) const noexcept {
  return {base_ + control_blocks_bytes + static_cast<std::size_t>(side) * ring_bytes_, ring_bytes_};
}

}  // namespace tandem::shm
