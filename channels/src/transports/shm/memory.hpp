#pragma once

#include <array>
#include <string>

#include "shared_memory/sealed_file.hpp"
#include "transports/shm/ring.hpp"

namespace tandem::shm {

/// How an end has closed.
enum class close_state : std::uint32_t {
  none = 0,
  close = 1,
  after_error = 2,  ///< it closed because of an error
  abrupt = 3,       ///< it closed without a close frame; its memory must not be read any more
};

/// Bits of `control_block::wake_mask`: what the other end must ring the doorbell for.
constexpr std::uint32_t wakes_for_records = 1;
constexpr std::uint32_t wakes_for_progress = 2;  ///< room in the ring, a reference read

/// Bytes of a ring: `asked_bytes`, or where that is 0, a size for this machine's second level cache
/// and this many ranks.
std::size_t ring_bytes_for(std::size_t asked_bytes, int ranks) noexcept;

using nonce = std::array<std::byte, 16>;

/// A shared buffer that one end offers to the other for mapping (`shared_pages::location`).
struct buffer_offer {
  /// Incremented for each buffer that gets this slot; 0: none. Written after the other fields.
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint32_t> process;
  std::atomic<std::uint32_t> descriptor;
  std::atomic<std::uint64_t> inode;
  std::atomic<std::uint64_t> bytes;
};
/// Buffers of one end that the other may have mapped at a time.
constexpr std::size_t max_offers = 32;

/// The control words of one end beside its ring. Their end writes them and the other reads them,
/// except `wake_mask`, which the end that rings resets to 0.
struct control_block {
  alignas(64) std::atomic<std::uint32_t> wake_mask;
  alignas(64) std::atomic<std::uint64_t> consumed;  ///< bytes of the other's ring
  std::atomic<std::uint64_t> read;                  ///< references of the other that are read
  alignas(64) std::atomic<close_state> closed_as;
  std::atomic<std::uint32_t> is_probe_published;  ///< the next two fields are written
  std::atomic<std::uint64_t> address;             ///< of these words, in its process
  nonce once;                                     ///< random
  /// 1: this end can read the other's memory; 0: it cannot, or has not probed yet.
  std::atomic<std::uint32_t> reads_references;
  std::atomic<std::uint32_t> offers;  ///< incremented with every change of `offered`
  std::array<buffer_offer, max_offers> offered;
  /// By slot: the generation of the other's offer that is mapped here.
  std::array<std::atomic<std::uint32_t>, max_offers> mapped;
};

/// The memory that two ends share: a control block of each and a ring each way. It is anonymous
/// (memfd): one end creates the descriptor and passes it, and the kernel frees the memory when both
/// have closed or died. Its size is sealed, so neither end can truncate it while the other has it
/// mapped.
class memory {
 public:
  /// @throws tandem::error where the kernel has no memory.
  static memory create(std::size_t ring_bytes);
  /// Maps what a peer has passed. @throws tandem::error where it is not sealed memory of this
  /// layout.
  static memory open(descriptor from);

  memory() = default;
  memory(memory&& other) noexcept;
  memory& operator=(memory&& other) noexcept;
  ~memory();

  bool is_open() const noexcept { return base_ != nullptr; }
  /// The descriptor to pass; -1 after `close_descriptor`.
  int get_descriptor() const noexcept { return file_.get(); }
  void close_descriptor() noexcept { file_ = descriptor(); }
  /// The control block of side 0, which created the memory, or of side 1.
  control_block& control(int side) const noexcept;
  /// The ring that this side writes.
  ring_memory ring(int side) const noexcept;
  std::size_t ring_bytes() const noexcept { return ring_bytes_; }

 private:
  memory(descriptor file, std::size_t ring_bytes);

  descriptor file_;
  std::byte* base_ = nullptr;
  std::size_t ring_bytes_ = 0;
};

}  // namespace tandem::shm
