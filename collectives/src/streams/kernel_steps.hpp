#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tandem/collectives.hpp>

namespace tandem::detail {

/// What a rank queues for a collective, in its order: messages, and work on its own memory.
class kernel_steps {
 public:
  struct transfer {
    int peer = 0;
    bool is_send = false;
    char* data = nullptr;  ///< a send only reads it
    std::size_t bytes = 0;
  };

  /// All at the same time.
  virtual void exchange(std::span<const transfer> messages) = 0;
  /// Of two ranks: sends so many bytes, and combines as many of this rank with what the other
  /// sends. `into` may be at either.
  struct combination {
    const char* sent = nullptr;  ///< null: sends nothing
    const char* combined = nullptr;
    char* into = nullptr;
    std::size_t bytes = 0;
  };
  virtual void exchange_and_combine(const combination& what) = 0;
  virtual void copy(char* into, const char* from, std::size_t bytes) = 0;
  // As of `reducer`.
  virtual void prepare(char* into, const char* from, std::size_t bytes) = 0;
  virtual void combine(char* into, const char* a, const char* b, std::size_t bytes) = 0;
  virtual void finish(char* data, std::size_t bytes) = 0;

 protected:
  ~kernel_steps() = default;
};

/// A collective as one rank calls it.
struct kernel_collective {
  collective what = collective::barrier;
  int rank = 0, ranks = 1, root = 0;
  const char* from = nullptr;
  char* into = nullptr;   ///< may be `from`, or the rank's own block of it
  std::size_t bytes = 0;  ///< of all_gather and reduce_scatter: of one rank's block
  bool prepares = false;  ///< of reductions
};

constexpr bool reduces(collective what) {
  return what == collective::reduce || what == collective::all_reduce ||
         what == collective::reduce_scatter;
}
constexpr bool has_kernel_steps(collective what) {
  return reduces(what) || what == collective::broadcast || what == collective::all_gather;
}

/// Whether `queue_steps` uses the scratch memory.
bool uses_scratch(const kernel_collective& what) noexcept;

/// Every rank sends to every other what that needs, which combines it in the order of the ranks: so
/// all get the same bits. An all_reduce among more than two, of more than 128 KiB, is a
/// reduce_scatter and an all_gather. What does not fit into `scratch` goes on part by part.
/// @par Cost  for n ranks and B bytes each rank sends (n-1) B at most, and twice (n-1)/n B in such
///   an all_reduce (of two ranks: B, as by a ring, in one step). A reduction of two ranks is one
///   kernel if nothing has to be prepared or finished.
/// @param scratch  device memory, the same length on all ranks: `min_scratch_bytes` at least
/// @pre has_kernel_steps(what.what); all ranks call it with the same lengths
void queue_steps(const kernel_collective& what, std::span<char> scratch, kernel_steps& by);

constexpr std::size_t min_scratch_bytes(int ranks) {
  return std::size_t{4096} * static_cast<std::size_t>(ranks);
}

}  // namespace tandem::detail
