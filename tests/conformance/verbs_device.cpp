// The suite over a device of this machine that talks to itself, where TANDEM_TEST_RDMA names one:
// "rxe0 1 1" is the device, its port and the GID. tests/roce/conformance runs it on the kernel's
// soft-RoCE.

#include <boost/asio/this_coro.hpp>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "conformance/channel_case.hpp"
#include "support/rails_rig.hpp"
#include "verbs/meet.hpp"

namespace tandem::test {
namespace {

std::optional<verbs::place> named_device() {
  const char* const said = std::getenv("TANDEM_TEST_RDMA");
  if (said == nullptr) return {};
  std::istringstream words(said);
  verbs::place at;
  int port = 1;
  words >> at.device >> port >> at.gid_index;
  at.port = static_cast<std::uint8_t>(port);
  return at;
}

awaitable<std::unique_ptr<rails::wire>> make_wire(std::shared_ptr<verbs::adapter> on,
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

/// Of one adapter both ends, for the device's events; it closes with the last wire.
awaitable<channel_pair> connect_device(settings options, std::uint64_t registered_bytes) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::string why;
  const detail::ibverbs* const driver = detail::find_ibverbs(why);
  if (driver == nullptr) throw error(errc::unreachable, why);
  const std::shared_ptr<verbs::adapter> opened =
      verbs::adapter::open(executor, *driver, *named_device());
  const std::shared_ptr<verbs::adapter> shared(opened.get(),
                                               [opened](verbs::adapter*) { opened->close(); });
  rails_rig::wire_maker make = [shared, registered_bytes](sealed::connection over, sealed::side,
                                                          std::uint16_t) {
    return make_wire(shared, std::move(over), registered_bytes);
  };
  const std::shared_ptr<rails_rig> rig =
      co_await rails_rig::connect(options, 1, false, std::move(make));
  co_return rig->channels();
}

awaitable<channel_pair> connect_by_slots(settings options) {
  return connect_device(std::move(options), std::numeric_limits<std::uint64_t>::max());
}

/// Whatever is announced is written in place.
awaitable<channel_pair> connect_direct(settings options) {
  return connect_device(std::move(options), 1);
}

std::vector<channel_case> device_cases() {
  if (!named_device()) return {};
  return {channel_case{"device", connect_by_slots}, channel_case{"device_direct", connect_direct}};
}

INSTANTIATE_TEST_SUITE_P(rdma, channel_test, testing::ValuesIn(device_cases()), case_name);

}  // namespace
}  // namespace tandem::test
