#include "support/named_device.hpp"

#include <sstream>

#include "verbs/meet.hpp"

namespace tandem::test {

std::shared_ptr<verbs::adapter> open_device(const asio::any_io_executor& executor,
                                            const std::string& name) {
  std::istringstream words(name);
  verbs::place at;
  int port = 1;
  words >> at.device >> port >> at.gid_index;
  at.port = static_cast<std::uint8_t>(port);
  std::string why;
  const detail::ibverbs* const driver = detail::find_ibverbs(why);
  if (driver == nullptr) throw error(errc::unreachable, why);
  const std::shared_ptr<verbs::adapter> opened = verbs::adapter::open(executor, *driver, at);
  return {opened.get(), [opened](verbs::adapter*) { opened->close(); }};
}

awaitable<std::unique_ptr<rails::wire>> narrow_wire(std::shared_ptr<verbs::adapter> on,
                                                    sealed::connection over,
                                                    std::uint64_t registered_bytes) {
  verbs::room room;
  room.registered_bytes = registered_bytes;
  room.records = 32;
  room.chunks = 4;
  room.chunk_bytes = 16384;
  std::unique_ptr<rails::wire> made = co_await verbs::meet(std::move(over), std::move(on), room);
  co_return made;
}

}  // namespace tandem::test
