#include <gtest/gtest.h>

#include "rails/table.hpp"

namespace tandem::rails {
namespace {

rail_choice interface(const std::string& name, const std::vector<std::string>& addresses,
                      bool chosen) {
  rail_choice one;
  one.interface = name;
  one.kind = "ethernet";
  one.addresses = addresses;
  one.speed_mbit = 100'000;
  one.up = true;
  one.chosen = chosen;
  one.reason = chosen ? "chosen: up" : "left out: bridge";
  one.rdma_reason = "no device stands on " + name;
  return one;
}

TEST(RailsTable, ShowsRdmaBelowTheDecision) {
  std::vector<rail_choice> all{interface("eth0", {"10.9.0.1/24", "fd00::1/64"}, true),
                               interface("eth1", {"10.9.1.1/24"}, true),
                               interface("eth2", {"10.9.2.1/24"}, true),
                               interface("docker0", {"172.17.0.1/16"}, false)};
  all[0].rdma = "rxe0 port 1, GID 1 (RoCE v2, 10.9.0.1)";
  all[0].rdma_can = {"messages up to 8 MiB", "immediate data"};
  all[0].rdma_cannot = {"no dma-buf: Operation not supported"};
  all[1].rdma = "rxe1 port 1, GID 1 (RoCE v2, 10.9.1.1)";
  EXPECT_EQ(
      table(all),
      "interface  kind           speed       addresses      decision\n"
      "eth0       ethernet       100 Gbit/s  10.9.0.1/24    chosen: up\n"
      "                                      fd00::1/64     RDMA: rxe0 port 1, GID 1 (RoCE v2, "
      "10.9.0.1)\n"
      "                                                       supports: messages up to 8 MiB; "
      "immediate data\n"
      "                                                       no dma-buf: Operation not "
      "supported\n"
      "eth1       ethernet       100 Gbit/s  10.9.1.1/24    chosen: up\n"
      "                                                     RDMA: rxe1 port 1, GID 1 (RoCE v2, "
      "10.9.1.1)\n"
      "eth2       ethernet       100 Gbit/s  10.9.2.1/24    chosen: up\n"
      "                                                     no RDMA: no device stands on "
      "eth2\n"
      "docker0    ethernet       100 Gbit/s  172.17.0.1/16  left out: bridge\n");
}

TEST(RailsTable, ReportsCommonRdmaObstacleOnce) {
  std::vector<rail_choice> all{interface("eth0", {"10.9.0.1/24", "fd00::1/64"}, true),
                               interface("eth1", {}, true)};
  for (rail_choice& one : all) one.rdma_reason = "no RDMA here: no device";
  EXPECT_EQ(table(all),
            "interface  kind           speed       addresses    decision\n"
            "eth0       ethernet       100 Gbit/s  10.9.0.1/24  chosen: up\n"
            "                                      fd00::1/64\n"
            "eth1       ethernet       100 Gbit/s  -            chosen: up\n"
            "no RDMA here: no device\n");
}

TEST(RailsTable, JsonHasRdmaAndLeftOut) {
  rail_choice one = interface("eth0", {"10.9.0.1/24"}, true);
  one.rdma = "rxe0 port 1";
  one.rdma_reason.clear();
  one.rdma_left_out = {"GID 0: link-local", "say \"no\""};
  one.rdma_can = {"immediate data"};
  one.rdma_cannot = {"no dma-buf: old"};
  const std::string line = json(one);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find(R"("addresses": ["10.9.0.1/24"], "up": true, "chosen": true)"),
            std::string::npos);
  EXPECT_NE(line.find(R"("rdma": "rxe0 port 1", "rdma_reason": "", )"
                      R"("rdma_left_out": ["GID 0: link-local", "say \"no\""], )"
                      R"("rdma_can": ["immediate data"], "rdma_cannot": ["no dma-buf: old"]})"),
            std::string::npos)
      << line;
}

}  // namespace
}  // namespace tandem::rails
