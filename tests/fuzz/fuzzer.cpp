// Runs the target TANDEM_FUZZ_TARGET under libFuzzer.

#include <cstdint>
#include <cstdlib>

#include "fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const tandem::fuzz::target& one : tandem::fuzz::targets()) {
    if (one.name != TANDEM_FUZZ_TARGET) continue;
    one.run(std::as_bytes(std::span(data, size)));
    return 0;
  }
  std::abort();
}
