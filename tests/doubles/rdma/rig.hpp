#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "doubles/rdma/double.hpp"

namespace tandem::test {

inline const detail::ibverbs& verbs() {
  std::string why;
  return *detail::find_ibverbs(why);
}

inline ibv_context* open_named(const std::string& name) {
  ibv_device** const list = verbs().get_device_list(nullptr);
  ibv_context* opened = nullptr;
  for (int i = 0; list[i] != nullptr; ++i) {
    if (verbs().get_device_name(list[i]) == name) opened = verbs().open_device(list[i]);
  }
  verbs().free_device_list(list);
  return opened;
}

/// One end: one object of each kind, and 4 KiB of memory.
struct rdma_end {
  struct options {
    int cqe = 64;
    std::uint32_t send_wr = 8, receive_wr = 8, sge = 4, inlined = 64;
    int sig_all = 0;
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    std::uint8_t rnr_retry = 7;
    std::uint32_t gid_index = 1;
  };

  explicit rdma_end(const std::string& device) : rdma_end(device, options()) {}
  rdma_end(const std::string& device, const options& as) : wanted(as) {
    context = open_named(device);
    pd = verbs().alloc_pd(context);
    channel = verbs().create_comp_channel(context);
    ::fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    ::fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
    cq = verbs().create_cq(context, as.cqe, this, channel, 0);
    mr = verbs().reg_mr(pd, memory.data(), memory.size(), as.access);
    qp = make_qp();
  }
  ~rdma_end() {
    if (qp != nullptr) {
      EXPECT_EQ(verbs().destroy_qp(qp), 0);
    }
    if (cq != nullptr) {
      EXPECT_EQ(verbs().destroy_cq(cq), 0);
    }
    if (channel != nullptr) {
      EXPECT_EQ(verbs().destroy_comp_channel(channel), 0);
    }
    if (mr != nullptr) {
      EXPECT_EQ(verbs().dereg_mr(mr), 0);
    }
    if (pd != nullptr) {
      EXPECT_EQ(verbs().dealloc_pd(pd), 0);
    }
    if (context != nullptr) {
      EXPECT_EQ(verbs().close_device(context), 0);
    }
  }
  rdma_end(const rdma_end&) = delete;
  rdma_end& operator=(const rdma_end&) = delete;

  ibv_qp_init_attr plan() const {
    ibv_qp_init_attr as{};
    as.send_cq = as.recv_cq = cq;
    as.cap = {wanted.send_wr, wanted.receive_wr, wanted.sge, wanted.sge, wanted.inlined};
    as.qp_type = IBV_QPT_RC;
    as.sq_sig_all = wanted.sig_all;
    return as;
  }
  ibv_qp* make_qp() const {
    ibv_qp_init_attr as = plan();
    return verbs().create_qp(pd, &as);
  }

  ibv_port_attr port() const {
    ibv_port_attr got{};
    EXPECT_EQ(verbs().query_port(context, 1, &got), 0);
    return got;
  }
  ibv_gid gid() const {
    ibv_gid_entry table[8];
    const ssize_t count = verbs().query_gid_table(context, table, 8, 0, sizeof *table);
    for (ssize_t i = 0; i < count; ++i) {
      if (table[i].gid_index == wanted.gid_index) return table[i].gid;
    }
    ADD_FAILURE() << "no such GID";
    return {};
  }

  static constexpr int init_mask =
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  static constexpr int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  static constexpr int rts_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  ibv_qp_attr to_init() const {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qp_access_flags = static_cast<unsigned>(wanted.access);
    return to;
  }
  ibv_qp_attr to_rtr(const rdma_end& peer) const {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = peer.qp->qp_num;
    to.rq_psn = 7;
    to.max_dest_rd_atomic = 1;
    to.min_rnr_timer = 12;
    to.ah_attr.port_num = 1;
    to.ah_attr.dlid = peer.port().lid;
    to.ah_attr.is_global = to.ah_attr.dlid == 0;
    to.ah_attr.grh.dgid = peer.gid();
    to.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(wanted.gid_index);
    return to;
  }
  ibv_qp_attr to_rts() const {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 14;
    to.retry_cnt = 7;
    to.rnr_retry = wanted.rnr_retry;
    to.sq_psn = 7;
    to.max_rd_atomic = 1;
    return to;
  }
  int modify(ibv_qp_attr to, int mask) const { return verbs().modify_qp(qp, &to, mask); }
  int break_qp() const {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_ERR;
    return modify(to, IBV_QP_STATE);
  }

  ibv_sge part(std::size_t at, std::size_t bytes) {
    return {reinterpret_cast<std::uintptr_t>(memory.data() + at), static_cast<std::uint32_t>(bytes),
            mr->lkey};
  }
  int receive(std::uint64_t id, std::vector<ibv_sge> into) const {
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = into.data();
    wr.num_sge = static_cast<int>(into.size());
    return ibv_post_recv(qp, &wr, &bad);
  }
  static ibv_send_wr request(ibv_wr_opcode what, std::uint64_t id,
                             unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = what;
    wr.send_flags = flags;
    return wr;
  }
  /// Target address of the peer's write.
  static void set_target(ibv_send_wr& wr, rdma_end& at, std::size_t offset) {
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(at.memory.data() + offset);
    wr.wr.rdma.rkey = at.mr->rkey;
  }
  int post(ibv_send_wr wr, std::vector<ibv_sge> from) const {
    ibv_send_wr* bad = nullptr;
    wr.sg_list = from.data();
    wr.num_sge = static_cast<int>(from.size());
    return ibv_post_send(qp, &wr, &bad);
  }

  /// All available completions; of failed ones only the id and the status are valid.
  std::vector<ibv_wc> poll() const {
    std::vector<ibv_wc> got(128);
    got.resize(static_cast<std::size_t>(ibv_poll_cq(cq, 128, got.data())));
    return got;
  }
  /// For example "1 ok, 2 flushed".
  std::string outcomes() const {
    std::string all;
    for (const ibv_wc& wc : poll()) {
      if (!all.empty()) all += ", ";
      all += std::to_string(wc.wr_id) + " " + named(wc.status);
    }
    return all;
  }
  static std::string named(ibv_wc_status status) {
    switch (status) {
      case IBV_WC_SUCCESS:
        return "ok";
      case IBV_WC_WR_FLUSH_ERR:
        return "flushed";
      case IBV_WC_RETRY_EXC_ERR:
        return "unanswered";
      case IBV_WC_RNR_RETRY_EXC_ERR:
        return "not ready";
      case IBV_WC_REM_ACCESS_ERR:
        return "refused";
      case IBV_WC_LOC_PROT_ERR:
        return "not registered";
      case IBV_WC_LOC_LEN_ERR:
        return "too long";
      case IBV_WC_REM_INV_REQ_ERR:
        return "invalid there";
      case IBV_WC_REM_OP_ERR:
        return "failed there";
      default:
        return "status " + std::to_string(status);
    }
  }
  /// Acknowledges all events and returns their number.
  unsigned events() const {
    unsigned count = 0;
    ibv_cq* which = nullptr;
    void* with = nullptr;
    while (verbs().get_cq_event(channel, &which, &with) == 0) {
      EXPECT_EQ(which, cq);
      EXPECT_EQ(with, this);
      ++count;
    }
    EXPECT_EQ(errno, EAGAIN);
    verbs().ack_cq_events(cq, count);
    return count;
  }
  std::vector<ibv_event_type> async_events() const {
    std::vector<ibv_event_type> got;
    ibv_async_event event;
    while (verbs().get_async_event(context, &event) == 0) {
      got.push_back(event.event_type);
      verbs().ack_async_event(&event);
    }
    EXPECT_EQ(errno, EAGAIN);
    return got;
  }
  ibv_qp_state state() const {
    ibv_qp_attr now;
    ibv_qp_init_attr made_as;
    EXPECT_EQ(verbs().query_qp(qp, &now, IBV_QP_STATE, &made_as), 0);
    return now.qp_state;
  }
  void write(std::size_t at, const std::string& words) {
    std::memcpy(memory.data() + at, words.data(), words.size());
  }
  std::string text_at(std::size_t at, std::size_t bytes) const {
    return {memory.data() + at, bytes};
  }

  options wanted;
  std::vector<char> memory = std::vector<char>(4096, '.');
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
};

inline void connect(rdma_end& a, rdma_end& b) {
  for (rdma_end* const one : {&a, &b}) {
    EXPECT_EQ(one->modify(one->to_init(), rdma_end::init_mask), 0);
  }
  EXPECT_EQ(a.modify(a.to_rtr(b), rdma_end::rtr_mask), 0);
  EXPECT_EQ(b.modify(b.to_rtr(a), rdma_end::rtr_mask), 0);
  for (rdma_end* const one : {&a, &b}) {
    EXPECT_EQ(one->modify(one->to_rts(), rdma_end::rts_mask), 0);
  }
}

/// Two devices, a pair between them, and the double.
struct rdma_rig {
  rdma_rig() : rdma_rig(rdma_end::options()) {}
  explicit rdma_rig(const rdma_end::options& as) : rdma_rig(as, as) {}
  rdma_rig(const rdma_end::options& as_a, const rdma_end::options& as_b)
      : a("one", as_a), b("two", as_b) {
    connect(a, b);
  }
  rdma_double hosts{{{.name = "one"}, {.name = "two"}}};
  rdma_end a, b;
};

}  // namespace tandem::test
