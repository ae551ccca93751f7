#include "support/named_device.hpp"

#include <sstream>

#include "transports/rails/verbs/lane_connection.hpp"

namespace tandem::test {

std::shared_ptr<verbs::adapter> open_device(const asio::any_io_executor& executor,
                                            const std::string& name) {
  std::istringstream words(name);
  verbs::device_port at;
  int port = 1;
  words >> at.device >> port >> at.gid_index;
  at.port = static_cast<std::uint8_t>(port);
  std::string why;
  const detail::ibverbs* const driver = detail::find_ibverbs(why);
  if (driver == nullptr) throw error(errc::unreachable, why);
  const std::shared_ptr<verbs::adapter> opened = verbs::adapter::open(executor, *driver, at);
  return {opened.get(), [opened](verbs::adapter*) { opened->close(); }};
}

awaitable<std::unique_ptr<rails::lane_connection>> make_narrow_lane(
    std::shared_ptr<verbs::adapter> on, sealed::connection over, std::uint64_t registered_bytes) {
  verbs::queue_depths queue_depths;
  queue_depths.registered_bytes = registered_bytes;
  queue_depths.records = 32;
  queue_depths.chunks = 4;
  queue_depths.chunk_bytes = 16384;
  std::unique_ptr<rails::lane_connection> made =
      co_await verbs::establish(std::move(over), std::move(on), queue_depths);
  co_return made;
}

}  // namespace tandem::test
