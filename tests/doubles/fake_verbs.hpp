#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <list>
#include <map>
#include <string>
#include <tandem/detail/ibverbs.hpp>
#include <vector>

#include "doubles/fake_ports.hpp"

namespace tandem::verbs::fake {

/// The part of libibverbs that enumerates devices. One at a time.
class library {
 public:
  struct gid_line {
    std::uint32_t index, port, type, interface_index;
    std::string address = "::ffff:10.9.0.1";
  };

  library() { here_ = this; }
  ~library() {
    here_ = nullptr;
    EXPECT_EQ(open_, 0) << "devices left open";
  }
  library(const library&) = delete;
  library& operator=(const library&) = delete;

  ibv_device& add(const std::string& name) {
    ibv_device& one = devices_.emplace_back();
    std::snprintf(one.name, sizeof one.name, "%s", name.c_str());
    std::snprintf(one.dev_name, sizeof one.dev_name, "uverbs%zu", devices_.size() - 1);
    return one;
  }

  std::map<std::string, int> open_failure;
  std::vector<gid_line> gids{{0, 1, IBV_GID_TYPE_ROCE_V2, 3}};
  int list_failure = 0, query_device_failure = 0, query_port_failure = 0, gid_table_failure = 0;
  int gid_table_length = 1024;
  int opened = 0;  ///< devices opened so far

  static const detail::ibverbs& functions() {
    static const detail::ibverbs all = [] {
      detail::ibverbs made{};
      made.get_device_list = get_device_list;
      made.free_device_list = [](ibv_device** list) { delete[] list; };
      made.get_device_name = [](ibv_device* of) -> const char* { return of->name; };
      made.open_device = open_device;
      made.close_device = close_device;
      made.query_device = query_device;
      made.query_port = query_port;
      made.query_gid_table = query_gid_table;
      made.alloc_pd = [](ibv_context*) -> ibv_pd* { return errno = ENOMEM, nullptr; };
      return made;
    }();
    return all;
  }

 private:
  static ibv_device** get_device_list(int* count) {
    errno = here_->list_failure;
    if (errno != 0) return nullptr;
    auto** const list = new ibv_device*[here_->devices_.size() + 1]();
    *count = 0;
    for (ibv_device& one : here_->devices_) list[(*count)++] = &one;
    return list;
  }

  static ibv_context* open_device(ibv_device* which) {
    errno = here_->open_failure[which->name];
    if (errno != 0) return nullptr;
    ++here_->opened;
    ++here_->open_;
    auto* const opened = new ibv_context{};
    opened->device = which;
    return opened;
  }

  static int close_device(ibv_context* which) {
    --here_->open_;
    delete which;
    return 0;
  }

  static int query_device(ibv_context*, ibv_device_attr* into) {
    into->phys_port_cnt = 1;
    into->max_qp_wr = 16'384;
    into->max_mr_size = 1ull << 40;
    return here_->query_device_failure;
  }

  static int query_port(ibv_context*, std::uint8_t, ibv_port_attr* into) {
    into->state = IBV_PORT_ACTIVE;
    into->active_mtu = IBV_MTU_1024;
    into->gid_tbl_len = here_->gid_table_length;
    into->max_msg_sz = 8 << 20;
    into->active_width = 2;
    into->active_speed = 32;
    into->link_layer = IBV_LINK_LAYER_ETHERNET;
    return here_->query_port_failure;
  }

  static ssize_t query_gid_table(ibv_context*, ibv_gid_entry* into, std::size_t most,
                                 std::uint32_t flags, std::size_t entry_bytes) {
    EXPECT_EQ(flags, 0u);
    EXPECT_EQ(entry_bytes, sizeof(ibv_gid_entry));
    if (here_->gid_table_failure != 0) return -here_->gid_table_failure;
    if (here_->gids.size() > most) return -EINVAL;
    for (const gid_line& one : here_->gids) {
      ibv_gid_entry& entry = *into++;
      entry = {};
      const auto bytes = raw(one.address);
      std::memcpy(entry.gid.raw, bytes.data(), bytes.size());
      entry.gid_index = one.index;
      entry.port_num = one.port;
      entry.gid_type = one.type;
      entry.ndev_ifindex = one.interface_index;
    }
    return static_cast<ssize_t>(here_->gids.size());
  }

  static inline library* here_ = nullptr;
  std::list<ibv_device> devices_;
  int open_ = 0;
};

}  // namespace tandem::verbs::fake
