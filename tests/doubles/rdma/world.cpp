#include "doubles/rdma/world.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tandem::test::rdma {
namespace {

std::atomic<world*> in_force{nullptr};

rdma_double::gid link_local(std::uint64_t guid, ibv_gid_type type, unsigned interface_index) {
  rdma_double::gid made{.type = type, .interface_index = interface_index};
  made.bytes[0] = 0xfe;
  made.bytes[1] = 0x80;
  for (int i = 0; i < 8; ++i) made.bytes[15 - i] = static_cast<std::uint8_t>(guid >> (8 * i));
  return made;
}

std::unique_ptr<device> make_device(rdma_double::device_spec spec, unsigned number) {
  auto made = std::make_unique<device>();
  made->node_type = IBV_NODE_CA;
  made->transport_type = IBV_TRANSPORT_IB;
  spec.name.copy(made->name, sizeof made->name - 1);
  std::snprintf(made->dev_name, sizeof made->dev_name, "uverbs%u", number - 1);
  made->guid = 0x0200'00ff'fe00'0000u + number;
  made->lid = spec.infiniband ? static_cast<std::uint16_t>(number) : 0;
  made->up = spec.up;
  if (spec.gids.empty() && spec.infiniband) {
    spec.gids = {link_local(made->guid, IBV_GID_TYPE_IB, 0)};
  } else if (spec.gids.empty()) {
    spec.gids = {link_local(made->guid, IBV_GID_TYPE_ROCE_V2, number),
                 rdma_double::roce("10.200.0." + std::to_string(number), number)};
  }
  spec.gids = numbered(std::move(spec.gids));
  made->spec = std::move(spec);
  return made;
}

}  // namespace

std::vector<rdma_double::gid> numbered(std::vector<rdma_double::gid> gids) {
  for (std::uint32_t at = 0; at < gids.size(); ++at) {
    if (!gids[at].index) gids[at].index = at;
  }
  return gids;
}

world::world(std::vector<rdma_double::device_spec> specs) {
  unsigned number = 0;
  for (auto& spec : specs) devices.push_back(make_device(std::move(spec), ++number));
  fill_devices(table);
  fill_events(table);
  fill_memory(table);
  fill_completions(table);
  fill_queue_pairs(table);
  world* none = nullptr;
  if (!in_force.compare_exchange_strong(none, this)) fail("another double is in force");
  detail::replace_ibverbs(&table);
}

world::~world() {
  {
    const std::lock_guard lock(mutex);
    over_ = true;
    timer_changed_.notify_all();
  }
  if (clock_.joinable()) clock_.join();
  detail::replace_ibverbs(nullptr);
  in_force.store(nullptr);
}

world& world::current() {
  world* const now = in_force.load();
  if (now == nullptr) {
    std::fputs("a function of an RDMA double that is gone was called\n", stderr);
    std::abort();
  }
  return *now;
}

device& world::named(const std::string& name) {
  for (const auto& one : devices) {
    if (one->spec.name == name) return *one;
  }
  throw std::invalid_argument("the double has no device " + name);
}

void world::fail(const std::string& why) {
  ADD_FAILURE() << "RDMA double: " << why;
}

}  // namespace tandem::test::rdma
