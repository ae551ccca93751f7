#include "doubles/rdma/on_loopback.hpp"

#include <net/if.h>

#include <string_view>
#include <vector>

namespace tandem::test {

std::unique_ptr<rdma_double> rdma_on_loopback() {
  rdma_double::device_spec device{.name = loopback_device, .dmabuf = true};
  device.gids = {rdma_double::roce("127.0.0.1", ::if_nametoindex("lo"))};
  auto made = std::make_unique<rdma_double>(std::vector{device});
  made->deliver(rdma_double::delivery::at_poll);
  return made;
}

settings rdma_settings(rdma_use how) {
  settings options;
  options.rails = "127.0.0.1";
  options.rdma = how;
  options.job_secret = secret(std::string_view("sixteen bytes or more"));
  return options;
}

}  // namespace tandem::test
