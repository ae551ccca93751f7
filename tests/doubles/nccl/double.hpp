#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <tandem/detail/nccl.hpp>
#include <vector>

#include "doubles/cuda/double.hpp"

namespace tandem::test {
namespace nc = detail::nc;
namespace nccl {
class world;
}

/// A simulated collective library, for both vendors: while it lives, `find_nccl` returns its
/// functions. Its calls are executed on the streams of CUDA's double, which must exist and outlive
/// it: a call at the head of its stream waits until those of the other ranks are at the heads of
/// theirs, and so blocks what is queued after it. Values are combined in the order of ranks, by the
/// library's own loops; but minimum and maximum of floating point lose NaN, like NCCL's. Misuse
/// fails as in NCCL, or fails the test where NCCL would hang or is undefined; objects left open at
/// its end fail the test, too. One at a time; usable from any thread.
class nccl_double {
 public:
  static constexpr int version = 22803;

  explicit nccl_double(cuda_double& devices);
  ~nccl_double();
  nccl_double(const nccl_double&) = delete;
  nccl_double& operator=(const nccl_double&) = delete;

  /// The n-th call from now (1: the next) of this function returns this. By its exported name.
  void fail(const std::string& function, int at_call, nc::result with);
  /// A library before 2.28, without functions for blocks of ranks.
  void lack_blocks();
  /// No initialization ends before this double does.
  void hang_initializations();
  /// Calls that differ between ranks wait until they are aborted, as on GPUs, and are no misuse.
  void hang_mismatches();
  std::size_t calls(const std::string& function) const;
  /// Communicators and operations that are still open.
  std::size_t open() const;

 private:
  std::unique_ptr<nccl::world> world_;
};

}  // namespace tandem::test
