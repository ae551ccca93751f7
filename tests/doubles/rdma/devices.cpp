#include <endian.h>

#include <cerrno>
#include <cstring>

#include "doubles/rdma/world.hpp"

namespace tandem::test::rdma {
namespace {

ibv_device** get_device_list(int* count) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  if ((errno = in.faults.take_error(call::get_device_list)) != 0) return nullptr;
  auto& list = in.lists.emplace_back(new ibv_device*[in.devices.size() + 1]);
  std::size_t at = 0;
  for (const auto& one : in.devices) {
    if (one->listed) list[at++] = one.get();
  }
  list[at] = nullptr;
  if (count != nullptr) *count = static_cast<int>(at);
  return list.get();
}

void free_device_list(ibv_device** list) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  const auto gone = std::erase_if(in.lists, [&](const auto& one) { return one.get() == list; });
  if (gone == 0) in.fail("free_device_list: not one of its lists");
}

const char* get_device_name(ibv_device* of) {
  return of->name;
}

ibv_context* open_device(ibv_device* which) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  if ((errno = in.faults.take_error(call::open_device)) != 0) return nullptr;
  if (static_cast<device*>(which)->dead) return errno = EIO, nullptr;
  context& made = in.contexts.add(std::make_unique<context>());
  made.device = which;
  made.cmd_fd = -1;
  made.async_fd = made.events.fd();
  made.num_comp_vectors = 1;
  fill_completions(made.ops);
  fill_posting(made.ops);
  return &made;
}

int close_device(ibv_context* which) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  if (in.live(in.contexts, which, "close_device") == nullptr) return EINVAL;
  const auto inside = [&](const auto& one) { return one.context == which; };
  if (in.pds.any(inside) || in.completions.any_in(*which) || in.channels.any(inside)) return EBUSY;
  in.contexts.remove(which);
  return 0;
}

int query_device(ibv_context* of, ibv_device_attr* into) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  context* const found = in.live(in.contexts, of, "query_device");
  if (found == nullptr) return EINVAL;
  if (const int error = in.faults.take_error(call::query_device)) return error;
  const device& from = found->from();
  if (found->lost) return EIO;
  std::memset(into, 0, sizeof *into);
  into->node_guid = into->sys_image_guid = htobe64(from.guid);
  into->max_mr_size = ~std::uint64_t{0};
  into->page_size_cap = 0xfffff000;
  into->vendor_id = 0xffffff;
  into->max_qp = 1048560;
  into->max_qp_wr = from.spec.max_qp_wr;
  into->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT;
  into->max_sge = into->max_sge_rd = from.spec.max_sge;
  into->max_cq = 1048576;
  into->max_cqe = from.spec.max_cqe;
  into->max_mr = 524287;
  into->max_pd = 1048576;
  into->max_qp_rd_atom = into->max_qp_init_rd_atom = 128;
  into->max_res_rd_atom = 258048;
  into->atomic_cap = IBV_ATOMIC_NONE;
  into->max_pkeys = 64;
  into->local_ca_ack_delay = 15;
  into->phys_port_cnt = 1;
  return 0;
}

/// Like the library's compatibility function, it does not touch the newer fields.
int query_port(ibv_context* of, std::uint8_t port, ibv_port_attr* into) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  context* const found = in.live(in.contexts, of, "query_port");
  if (found == nullptr || port != 1) return EINVAL;
  if (const int error = in.faults.take_error(call::query_port)) return error;
  const device& from = found->from();
  if (found->lost) return EIO;
  into->state = from.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  into->max_mtu = IBV_MTU_4096;
  into->active_mtu = from.spec.mtu;
  into->gid_tbl_len = 1024;
  into->port_cap_flags = IBV_PORT_CM_SUP;
  into->max_msg_sz = from.spec.max_msg;
  into->bad_pkey_cntr = into->qkey_viol_cntr = 0;
  into->pkey_tbl_len = 1;
  into->lid = from.lid;
  into->sm_lid = from.spec.infiniband ? 1 : 0;
  into->lmc = into->sm_sl = into->subnet_timeout = into->init_type_reply = 0;
  into->max_vl_num = 1;
  into->active_width = into->active_speed = 1;
  into->phys_state = from.up ? 5 : 3;
  into->link_layer = from.spec.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  into->flags = 0;
  return 0;
}

ssize_t query_gid_table(ibv_context* of, ibv_gid_entry* into, std::size_t most, std::uint32_t flags,
                        std::size_t entry_bytes) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  context* const found = in.live(in.contexts, of, "query_gid_table");
  if (found == nullptr || flags != 0 || entry_bytes != sizeof *into) return -EINVAL;
  if (const int error = in.faults.take_error(call::query_gid_table)) return -error;
  if (found->lost) return -EIO;
  const auto& gids = found->from().spec.gids;
  if (gids.size() > most) return -EINVAL;
  for (const rdma_double::gid& one : gids) {
    std::memcpy(into->gid.raw, one.bytes.data(), one.bytes.size());
    into->gid_index = *one.index;
    into->port_num = 1;
    into->gid_type = one.type;
    into++->ndev_ifindex = one.interface_index;
  }
  return static_cast<ssize_t>(gids.size());
}

}  // namespace

void fill_devices(detail::ibverbs& table) {
  table.get_device_list = get_device_list;
  table.free_device_list = free_device_list;
  table.get_device_name = get_device_name;
  table.open_device = open_device;
  table.close_device = close_device;
  table.query_device = query_device;
  table.query_port = query_port;
  table.query_gid_table = query_gid_table;
}

}  // namespace tandem::test::rdma
