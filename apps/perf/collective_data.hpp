#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "perf/aligned_memory.hpp"
#include "perf/operation.hpp"
#include "perf/terms.hpp"

namespace tandem::perf {

/// What one rank brings to a collective, or to `sendrecv`, and what must come out of it. Knows no
/// library that carries it out. The root, where there is one, is rank 0.
class collective_data {
 public:
  virtual ~collective_data() = default;
  /// Writes new data to send and overwrites what is to be received.
  virtual void prepare(std::uint64_t epoch) = 0;
  /// Before each call, outside of what is timed. The data of the `last` are checked in full.
  virtual void before(std::uint64_t epoch, std::uint64_t iteration, bool last) = 0;
  /// After each call, outside of what is timed: the wrong bytes that a glance shows.
  virtual std::uint64_t after(std::uint64_t epoch, std::uint64_t iteration) = 0;
  /// Checks everything the last call left behind.
  virtual std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t iteration) = 0;

  /// What the call reads; empty where this rank brings nothing. Of allreduce and broadcast the one
  /// buffer of both.
  virtual std::span<std::byte> input() = 0;
  /// What the call writes; empty where this rank receives nothing.
  virtual std::span<std::byte> output() = 0;
};

/// One rank of so many, with so many bytes by the convention of `operation`.
struct part {
  int rank = 0, ranks = 1;
  std::size_t bytes = 0;
  data_type type = data_type::float32;
  std::size_t element_bytes = 4;
  reduce_op reduction = reduce_op::sum;
  memory_source from = nullptr;  ///< of all data; null: the heap
};

/// @pre bytes are what `bytes_moved` says, and `terms::possible` where the operation reduces
std::unique_ptr<collective_data> make_data(const operation& what, const part& mine);

}  // namespace tandem::perf
