#pragma once

#include <cstdint>
#include <memory>

#include "harness.hpp"

namespace tandem::bench {

/// One kind of measurement on one rank: an iteration, and what is checked of it.
class exercise {
 public:
  virtual ~exercise() = default;
  virtual void prepare(std::uint64_t epoch, std::uint64_t iteration) = 0;
  /// Not timed. The data of the `last` are checked in full.
  virtual void before(std::uint64_t, std::uint64_t, bool last) { static_cast<void>(last); }
  virtual void iterate(std::uint64_t epoch, std::uint64_t iteration) = 0;  ///< is timed
  virtual void after(std::uint64_t, std::uint64_t) {}                      ///< not timed
  virtual std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t iteration) = 0;
  virtual double iterations_of_time() const { return 1; }  ///< what a sample is divided by
  std::uint64_t wrong = 0;                                 ///< found while iterating
};

std::unique_ptr<exercise> make_exercise(endpoint& at, const plan& what, std::size_t bytes);

}  // namespace tandem::bench
