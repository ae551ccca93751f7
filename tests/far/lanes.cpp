#include "far/lanes.hpp"

#include "support/named_device.hpp"

namespace tandem::test::far {

lane_connection_maker lanes_of_pair::open(const asio::any_io_executor& executor) const {
  if (devices.empty()) return {};
  std::vector<std::shared_ptr<verbs::adapter>> opened;
  for (const std::string& each : devices) opened.push_back(open_device(executor, each));
  return [opened = std::move(opened)](sealed::connection over, sealed::side, std::uint16_t lane) {
    return make_narrow_lane(opened.at(lane), std::move(over));
  };
}

}  // namespace tandem::test::far
