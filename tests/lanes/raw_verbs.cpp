#include "lanes/raw_verbs.hpp"

#include <endian.h>

#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace tandem::test {
namespace {

constexpr std::uint32_t local_psn = 7;
// The memory of a queue pair: send buffer, receive buffer, and two slots.
constexpr std::size_t memory_bytes = 4096, receive_at = 1024, slots_at = 2048,
                      raw_slot_bytes = 1024;

rdma_end::options options() {
  rdma_end::options as;
  as.cqe = 512;
  as.send_wr = as.receive_wr = 64;
  as.inlined = 0;
  as.gid_index = 0;
  return as;
}

void connect_pair(rdma_end& one, const verbs::qp_info& to, std::uint32_t pair, std::uint32_t psn) {
  EXPECT_EQ(one.modify(one.to_init(), rdma_end::init_mask), 0);
  for (std::uint64_t i = 0; i < 64; ++i)
    one.receive(i, {one.part(receive_at, slots_at - receive_at)});
  ibv_qp_attr rtr = one.to_rtr(one);
  rtr.dest_qp_num = pair;
  rtr.rq_psn = psn;
  std::memcpy(rtr.ah_attr.grh.dgid.raw, to.gid.data(), to.gid.size());
  EXPECT_EQ(one.modify(rtr, rdma_end::rtr_mask), 0);
  EXPECT_EQ(one.modify(one.to_rts(), rdma_end::rts_mask), 0);
}

}  // namespace

raw_verbs::raw_verbs(const std::string& device)
    : data(device, options()), control(device, options()) {}

verbs::qp_info raw_verbs::qp_info() const {
  verbs::qp_info local;
  const ibv_gid gid = data.gid();
  std::memcpy(local.gid.data(), gid.raw, local.gid.size());
  local.data_pair = data.qp->qp_num;
  local.control_pair = control.qp->qp_num;
  local.data_psn = local.control_psn = local_psn;
  local.chunks_at = reinterpret_cast<std::uint64_t>(data.memory.data() + slots_at);
  local.key = data.mr->rkey;
  local.has = {60, slots_at - receive_at, 2, raw_slot_bytes, 60};
  return local;
}

void raw_verbs::connect(const verbs::qp_info& to) {
  remote = to;
  connect_pair(data, to, to.data_pair, to.data_psn);
  connect_pair(control, to, to.control_pair, to.control_psn);
}

awaitable<std::shared_ptr<raw_verbs>> raw_verbs::establish(
    asio::ip::tcp::socket over, const std::string& device,
    std::function<void(verbs::qp_info&)> corrupt) {
  auto made = std::make_shared<raw_verbs>(device);
  verbs::qp_info sent_info = made->qp_info();
  if (corrupt) corrupt(sent_info);
  const verbs::wire_qp_info local = verbs::encode(sent_info);
  co_await asio::async_write(over, asio::buffer(local), asio::use_awaitable);
  verbs::wire_qp_info remote{};
  co_await asio::async_read(over, asio::buffer(remote), asio::use_awaitable);
  const verbs::qp_info to = verbs::decode(remote);
  made->connect(to);
  char ready = 'R';
  co_await asio::async_write(over, asio::buffer(&ready, 1), asio::use_awaitable);
  co_await asio::async_read(over, asio::buffer(&ready, 1), asio::use_awaitable);
  for (rdma_end* const one : {&made->data, &made->control}) {
    write_update(*one, {});
    made->send(*one, verbs::credit_update_bytes);
  }
  made->control_socket = std::move(over);
  co_return made;
}

void raw_verbs::write_update(rdma_end& in, const verbs::credit_update& update) {
  auto* const to = reinterpret_cast<std::byte*>(in.memory.data());
  verbs::encode(update,
                std::span<std::byte, verbs::credit_update_bytes>(to, verbs::credit_update_bytes));
}

void raw_verbs::send(rdma_end& by, std::size_t bytes) {
  EXPECT_EQ(by.post(rdma_end::request(IBV_WR_SEND, 100), {by.part(0, bytes)}), 0);
}

void raw_verbs::write(std::size_t bytes, std::uint64_t to, std::uint32_t slot, std::uint32_t key) {
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE_WITH_IMM, 101);
  wr.imm_data = htobe32(slot);
  wr.wr.rdma.remote_addr = to;
  wr.wr.rdma.rkey = key;
  std::vector<ibv_sge> from;
  for (std::size_t left = bytes; left > 0; left -= from.back().length) {
    from.push_back(data.part(0, std::min(left, memory_bytes)));
  }
  EXPECT_EQ(data.post(wr, from), 0);
}

}  // namespace tandem::test
