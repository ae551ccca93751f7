#pragma once

#include <cstdint>
#include <memory>

#include "harness.hpp"

namespace tandem::bench {

/// One kind of measurement on one rank: an iteration and the check of its data.
class exercise {
 public:
  virtual ~exercise() = default;
  virtual void prepare(std::uint64_t epoch, std::uint64_t iteration) = 0;
  /// Not timed. The data of the `last` iteration are checked in full.
  virtual void before(std::uint64_t, std::uint64_t, bool last) { static_cast<void>(last); }
  virtual void iterate(std::uint64_t epoch, std::uint64_t iteration) = 0;  ///< timed
  virtual void after(std::uint64_t, std::uint64_t) {}                      ///< not timed
  virtual std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t iteration) = 0;
  virtual double iterations_per_sample() const { return 1; }  ///< divisor of a sample
  std::uint64_t wrong = 0;  ///< wrong bytes found during iterations
};

std::unique_ptr<exercise> make_exercise(endpoint& at, const plan& what, std::size_t bytes);

}  // namespace tandem::bench
