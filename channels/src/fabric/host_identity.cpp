#include "fabric/host_identity.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <tandem/detail/resources.hpp>

namespace tandem::transport {

std::string host_identity() {
  std::string boot;
  errno = 0;
  std::ifstream from("/proc/sys/kernel/random/boot_id");
  if (!from.is_open() && detail::is_exhausted(errno, detail::resource::descriptor)) {
    throw detail::exhausted(errno, detail::resource::descriptor,
                            "cannot read the boot id of this host");
  }
  from >> boot;
  struct stat network {};
  ::stat("/proc/self/ns/net", &network);
  return fmt::format("{}:{}", boot, network.st_ino);
}

}  // namespace tandem::transport
