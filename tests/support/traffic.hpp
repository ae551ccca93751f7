#pragma once

#include <cstdint>
#include <vector>

#include "support/channel_case.hpp"

namespace tandem::test {

/// Messages of random length up to a limit, on several flows, both ways concurrently; each is
/// checked.
class traffic {
 public:
  struct shape {
    int flows = 3;
    int messages = 40;  ///< of each flow and direction
    std::size_t max_bytes = 20'000;
  };

  /// Starts at once.
  traffic(channel& first, channel& second, std::uint32_t seed, shape as);
  traffic(channel& first, channel& second, std::uint32_t seed)
      : traffic(first, second, seed, shape()) {}
  awaitable<void> result();
  bool is_over() const noexcept;

 private:
  std::vector<background> parts_;
};

}  // namespace tandem::test
