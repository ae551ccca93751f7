#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "perf/aligned_memory.hpp"
#include "perf/operation.hpp"
#include "perf/terms.hpp"

namespace tandem::perf {

/// Input of one rank for a collective or `sendrecv`, and the expected output. Independent of the
/// library that performs it. The root, if any, is rank 0.
class collective_data {
 public:
  virtual ~collective_data() = default;
  /// Writes new data to send and overwrites the receive buffer.
  virtual void prepare(std::uint64_t epoch) = 0;
  /// Called before each call, outside the timed region. The data of the `last` are checked in full.
  virtual void before(std::uint64_t epoch, std::uint64_t iteration, bool last) = 0;
  /// Called after each call, outside the timed region: a quick check. Returns the wrong bytes.
  virtual std::uint64_t after(std::uint64_t epoch, std::uint64_t iteration) = 0;
  /// Checks the whole result of the last call. Returns the wrong bytes.
  virtual std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t iteration) = 0;

  /// The input buffer; empty if this rank has no input. For allreduce and broadcast, input and
  /// output are one buffer.
  virtual std::span<std::byte> input() = 0;
  /// The output buffer; empty if this rank receives nothing.
  virtual std::span<std::byte> output() = 0;
};

/// Parameters of one rank; `bytes` follows the convention of `operation`.
struct collective_params {
  int rank = 0, ranks = 1;
  std::size_t bytes = 0;
  data_type type = data_type::float32;
  std::size_t element_bytes = 4;
  reduce_op reduction = reduce_op::sum;
  memory_source from = nullptr;  ///< allocates all data; null: the heap
};

/// @pre `bytes` as returned by `bytes_moved`; `terms::possible` if the operation reduces.
std::unique_ptr<collective_data> make_data(const operation& what, const collective_params& mine);

}  // namespace tandem::perf
