#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <tandem/detail/nccl.hpp>
#include <vector>

#include "support/cuda/double.hpp"

namespace tandem::test {
namespace nc = detail::nc;
namespace nccl {
class world;
}

/// A vendor's library of collectives in memory, for both vendors: while it lives, `find_nccl` gives
/// its functions. Its calls are done on the streams of CUDA's double, where there always is one
/// that lives longer: a call waits at the head of its stream until the other ranks' are at theirs,
/// and so holds what is behind it. Values are combined in the order of ranks, by the library's own
/// loops; but minimum and maximum of floating point lose NaN, as NCCL's do. Misuse fails as NCCL
/// fails it, or fails the test where NCCL would hang or give anything, as does what is still open
/// when it ends. One at a time. Any thread.
class nccl_double {
 public:
  static constexpr int version = 22803;

  explicit nccl_double(cuda_double& devices);
  ~nccl_double();
  nccl_double(const nccl_double&) = delete;
  nccl_double& operator=(const nccl_double&) = delete;

  /// The n-th call from now (1: the next) of this function fails so. By its exported name.
  void fail(const std::string& function, int at_call, nc::result with);
  std::size_t calls(const std::string& function) const;
  /// Communicators and operations that are not yet given back.
  std::size_t open() const;

 private:
  std::unique_ptr<nccl::world> world_;
};

}  // namespace tandem::test
