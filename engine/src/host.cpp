#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <tandem/launch.hpp>

namespace tandem {

std::string host_name(const settings& options) {
  if (!options.host.empty()) return options.host;
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{}:{}", name.data(), boot);
}

}  // namespace tandem
