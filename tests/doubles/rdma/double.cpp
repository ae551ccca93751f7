#include "doubles/rdma/double.hpp"

#include <boost/asio/ip/address.hpp>

#include "doubles/rdma/world.hpp"

namespace tandem::test {

rdma_double::gid rdma_double::roce(const std::string& address, unsigned interface_index,
                                   ibv_gid_type type) {
  namespace ip = boost::asio::ip;
  const ip::address of = ip::make_address(address);
  const auto v6 = of.is_v4() ? ip::make_address_v6(ip::v4_mapped, of.to_v4()) : of.to_v6();
  gid made{.type = type, .interface_index = interface_index};
  const auto bytes = v6.to_bytes();
  std::copy(bytes.begin(), bytes.end(), made.bytes.begin());
  return made;
}

rdma_double::rdma_double(std::vector<device_spec> devices)
    : world_(std::make_unique<rdma::world>(std::move(devices))) {}

rdma_double::~rdma_double() {
  const objects left = open();
  if (left != objects{}) world_->fail("left open: " + left.text());
}

std::string rdma_double::objects::text() const {
  return std::to_string(contexts) + " contexts, " + std::to_string(pds) + " domains, " +
         std::to_string(mrs) + " regions, " + std::to_string(channels) + " channels, " +
         std::to_string(cqs) + " completion queues, " + std::to_string(qps) + " queue pairs, " +
         std::to_string(device_lists) + " lists, " + std::to_string(unacked_events) + " events";
}

detail::ibverbs& rdma_double::table() noexcept {
  return world_->table;
}

void rdma_double::deliver(delivery when) {
  const std::lock_guard lock(world_->mutex);
  world_->when = when;
  world_->make_progress();
}

std::size_t rdma_double::pump(std::size_t most, const std::string& device) {
  const std::lock_guard lock(world_->mutex);
  return world_->pump(most, device);
}

void rdma_double::retry_for(std::chrono::milliseconds how_long) {
  const std::lock_guard lock(world_->mutex);
  world_->retry_for(how_long);
}

void rdma_double::drop_link(const std::string& device) {
  const std::lock_guard lock(world_->mutex);
  rdma::device& of = world_->named(device);
  if (!std::exchange(of.up, false)) return;
  world_->events.post(of, IBV_EVENT_PORT_ERR);
  world_->make_progress();
}

void rdma_double::restore_link(const std::string& device) {
  const std::lock_guard lock(world_->mutex);
  rdma::device& of = world_->named(device);
  if (std::exchange(of.up, true)) return;
  world_->events.post(of, IBV_EVENT_PORT_ACTIVE);
  world_->make_progress();
}

void rdma_double::fail_device(const std::string& device) {
  const std::lock_guard lock(world_->mutex);
  rdma::device& of = world_->named(device);
  if (std::exchange(of.dead, true)) return;
  world_->kill(of);
}

void rdma_double::remove_device(const std::string& device) {
  const std::lock_guard lock(world_->mutex);
  rdma::device& of = world_->named(device);
  of.listed = false;
  if (!std::exchange(of.dead, true)) world_->kill(of);
}

void rdma_double::restore_device(const std::string& device) {
  const std::lock_guard lock(world_->mutex);
  rdma::device& of = world_->named(device);
  of.listed = true;
  of.dead = false;
}

void rdma_double::drop_acks(const std::string& device, bool on) {
  const std::lock_guard lock(world_->mutex);
  world_->named(device).acks_lost = on;
  world_->make_progress();
}

void rdma_double::delay_packets(const std::string& device, bool on) {
  const std::lock_guard lock(world_->mutex);
  rdma::device& of = world_->named(device);
  of.packets_late = on;
  if (!on) world_->land_late(of);
  world_->make_progress();
}

void rdma_double::change_gids(const std::string& device, std::vector<gid> to) {
  const std::lock_guard lock(world_->mutex);
  rdma::device& of = world_->named(device);
  of.spec.gids = rdma::numbered(std::move(to));
  world_->events.post(of, IBV_EVENT_GID_CHANGE);
  world_->make_progress();
}

void rdma_double::hold(const std::string& device, bool on) {
  const std::lock_guard lock(world_->mutex);
  world_->named(device).held = on;
  world_->make_progress();
}

void rdma_double::fail_next(call which, int error, int after) {
  const std::lock_guard lock(world_->mutex);
  world_->faults.fail_next(which, error, after);
}

void rdma_double::fail_next_wr(ibv_wc_status status, const std::string& device) {
  const std::lock_guard lock(world_->mutex);
  world_->faults.fail_next_wr(status, device);
}

rdma_double::objects rdma_double::open() const {
  const std::lock_guard lock(world_->mutex);
  objects left{world_->contexts.size(), world_->pds.size(),         world_->memory.size(),
               world_->channels.size(), world_->completions.size(), world_->qps.size(),
               world_->lists.size()};
  left.registered_bytes = world_->memory.bytes();
  left.unacked_events = world_->completions.unacked_events();
  for (const auto& one : world_->contexts) left.unacked_events += one->unacked;
  for (const auto& one : world_->qps) {
    left.unacked_events += one->async_fetched - one->events_completed;
  }
  return left;
}

std::size_t rdma_double::waiting_events() const {
  const std::lock_guard lock(world_->mutex);
  return world_->events.waiting();
}

rdma_double::traffic rdma_double::seen() const {
  const std::lock_guard lock(world_->mutex);
  return world_->seen;
}

}  // namespace tandem::test
