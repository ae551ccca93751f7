#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

// Declared in infiniband/verbs.h, which public headers do not include.
struct ibv_device;
struct ibv_context;
struct ibv_device_attr;
struct ibv_port_attr;
struct ibv_gid_entry;
struct ibv_pd;
struct ibv_mr;
struct ibv_comp_channel;
struct ibv_cq;
struct ibv_qp;
struct ibv_qp_attr;
struct ibv_qp_init_attr;
struct ibv_async_event;

namespace tandem::detail {

/// The functions of libibverbs that are not inline in its header. Posting and polling use
/// `ibv_context::ops`, which the device's driver fills at open.
struct ibverbs {
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* of);
  ibv_context* (*open_device)(ibv_device* which);
  int (*close_device)(ibv_context* which);
  int (*query_device)(ibv_context* of, ibv_device_attr* into);
  /// May leave unknown fields unset: zero `into` before the call.
  int (*query_port)(ibv_context* of, std::uint8_t port, ibv_port_attr* into);
  /// As ibv_query_gid_table, with `sizeof(ibv_gid_entry)` last: the number of entries, or -errno.
  ssize_t (*query_gid_table)(ibv_context* of, ibv_gid_entry* into, std::size_t max,
                             std::uint32_t flags, std::size_t entry_bytes);
  ibv_pd* (*alloc_pd)(ibv_context* of);
  int (*dealloc_pd)(ibv_pd* which);
  ibv_mr* (*reg_mr)(ibv_pd* in, void* from, std::size_t bytes, int access);
  /// As reg_mr, but ignores optional flags of `access` that the device does not support. Null if
  /// the library is older than rdma-core 30.
  ibv_mr* (*reg_mr_iova2)(ibv_pd* in, void* from, std::size_t bytes, std::uint64_t iova,
                          unsigned access);
  /// Null if the library is older than rdma-core 34.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* in, std::uint64_t offset, std::size_t bytes, std::uint64_t iova,
                           int descriptor, int access);
  int (*dereg_mr)(ibv_mr* which);
  ibv_comp_channel* (*create_comp_channel)(ibv_context* of);
  int (*destroy_comp_channel)(ibv_comp_channel* which);
  ibv_cq* (*create_cq)(ibv_context* of, int entries, void* with, ibv_comp_channel* events,
                       int vector);
  int (*destroy_cq)(ibv_cq* which);
  int (*get_cq_event)(ibv_comp_channel* of, ibv_cq** which, void** with);
  void (*ack_cq_events)(ibv_cq* of, unsigned count);
  ibv_qp* (*create_qp)(ibv_pd* in, ibv_qp_init_attr* as);
  int (*modify_qp)(ibv_qp* which, ibv_qp_attr* to, int mask);
  int (*query_qp)(ibv_qp* which, ibv_qp_attr* into, int mask, ibv_qp_init_attr* made_as);
  int (*destroy_qp)(ibv_qp* which);
  int (*get_async_event)(ibv_context* of, ibv_async_event* into);
  void (*ack_async_event)(ibv_async_event* which);
};

/// The library of this machine, loaded on first use and never unloaded; null if it is missing or
/// lacks a function: `why` then has which and what to install. Any thread.
const ibverbs* find_ibverbs(std::string& why);

/// Makes `find_ibverbs` return `by`; null: the machine's own again. For tests. Any thread.
void replace_ibverbs(const ibverbs* by) noexcept;

}  // namespace tandem::detail
