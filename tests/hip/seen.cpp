#include <fmt/format.h>

#include <tandem/accelerator.hpp>

/// Prints the HIP devices that a program finds, or why there are none.
int main() {
  const tandem::accelerators all = tandem::find_accelerators(tandem::memory_kind::hip);
  for (const tandem::accelerator* const each : all.found) fmt::print("{}\n", each->text());
  if (all.found.empty()) fmt::print("{}\n", all.why_none);
}
