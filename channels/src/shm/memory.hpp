#pragma once

#include <array>
#include <string>

#include "shm/mapping.hpp"
#include "shm/ring.hpp"

namespace tandem::shm {

/// How an end has left.
enum class parting : std::uint32_t {
  none = 0,
  goodbye = 1,
  in_failure = 2,  ///< it gave up because of an error
  silent = 3,      ///< it is gone without a goodbye, and takes its memory back
};

/// Bits of `end_words::asleep`: what the other end shall ring for.
constexpr std::uint32_t wakes_for_records = 1;
constexpr std::uint32_t wakes_for_progress = 2;  ///< room in the ring, a reference that was read

/// The ring that is asked for, or, where that is 0, by this machine and so many ranks.
std::size_t ring_bytes_for(std::size_t asked_bytes, int ranks) noexcept;

using nonce = std::array<std::byte, 16>;

/// A shared buffer of one end, for the other to map (`shared_pages::place`).
struct offer_words {
  /// Grows with each buffer that gets this slot; 0: there is none. Written after the others.
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint32_t> process;
  std::atomic<std::uint32_t> descriptor;
  std::atomic<std::uint64_t> inode;
  std::atomic<std::uint64_t> bytes;
};
/// Of one end that the other may have mapped at once.
constexpr std::size_t most_offers = 32;

/// What one end tells the other beside its ring. It writes these words and the other reads them,
/// but for `asleep`, which whoever rings takes back to 0.
struct end_words {
  alignas(64) std::atomic<std::uint32_t> asleep;
  alignas(64) std::atomic<std::uint64_t> consumed;  ///< bytes of the other's ring
  std::atomic<std::uint64_t> read;                  ///< references of the other that were read
  alignas(64) std::atomic<parting> left;
  std::atomic<std::uint32_t> is_introduced;  ///< the next two are there
  std::atomic<std::uint64_t> address;        ///< of these words, in its process
  nonce once;                                ///< random
  /// It can read the other's memory; 0 while it does not know.
  std::atomic<std::uint32_t> reads_references;
  std::atomic<std::uint32_t> offers;  ///< grows with every change of the next
  std::array<offer_words, most_offers> offered;
  /// The generation of the other's offer that is mapped here.
  std::array<std::atomic<std::uint32_t>, most_offers> mapped;
};

/// The memory that two ends share: words of both, a ring each way. It has no name: it lives in a
/// descriptor that one end makes and passes on, and the kernel frees it when both have let go,
/// whatever they die of. Its size is sealed, so that no end can take pages away from under the
/// other.
class memory {
 public:
  /// @throws tandem::error where the kernel gives none.
  static memory create(std::size_t ring_bytes);
  /// What a peer has passed. Throws where it is no such memory.
  static memory open(descriptor from);

  memory() = default;
  memory(memory&& other) noexcept;
  memory& operator=(memory&& other) noexcept;
  ~memory();

  bool is_open() const noexcept { return base_ != nullptr; }
  /// To be passed on; -1 after `forget_descriptor`.
  int get_descriptor() const noexcept { return file_.get(); }
  void forget_descriptor() noexcept { file_ = descriptor(); }
  /// Of side 0, which made the memory, and side 1.
  end_words& words(int side) const noexcept;
  /// What this side writes.
  ring_memory ring(int side) const noexcept;
  std::size_t ring_bytes() const noexcept { return ring_bytes_; }

 private:
  memory(descriptor file, std::size_t ring_bytes);

  descriptor file_;
  std::byte* base_ = nullptr;
  std::size_t ring_bytes_ = 0;
};

}  // namespace tandem::shm
