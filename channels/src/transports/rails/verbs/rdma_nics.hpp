#pragma once

#include <optional>
#include <string>
#include <tandem/settings.hpp>
#include <vector>

#include "transports/rails/nic/nic.hpp"
#include "transports/rails/nic/selection.hpp"
#include "transports/rails/verbs/gid_choice.hpp"
#include "transports/rails/verbs/ports.hpp"

namespace tandem::verbs {

/// One end of an RDMA rail: a port and its GID.
struct rdma_end {
  std::string device;
  std::uint8_t port = 1;
  bool ethernet = false;  ///< RoCE; else InfiniBand, where `lid` counts too
  int gid_index = 0;
  gid_bytes gid{};
  std::uint16_t lid = 0;
  int mtu_bytes = 0;  ///< active; a pair uses the smaller of both ends
  std::uint64_t max_message_bytes = 0;
  std::int64_t speed_mbit = -1;  ///< -1: unknown
  int numa_node = -1;            ///< -1: unknown
  device_limits limits;
  std::string why;  ///< "rxe0 port 1, GID 1 (RoCE v2, 10.9.0.1)"
};

/// The RDMA port of one interface, or why there is none.
struct rdma_choice {
  std::optional<rdma_end> end;
  std::string why;                    ///< of `end`, or why there is none and what to do
  std::vector<std::string> left_out;  ///< other ports on it, and GIDs: one line each, few
};

/// The port of an interface: for RoCE by the interface of its GIDs, for InfiniBand by the port GUID
/// at the end of the hardware address of IP over InfiniBand. Of several ports, one with a usable
/// GID is preferred, then the faster, then by name.
///
/// @param addresses  those that the rail uses; empty: any of the interface
rdma_choice choose_rdma(const std::vector<port>& ports, const rails::nic& on,
                        const std::vector<rails::nic_address>& addresses);

/// One for each rail, in their order.
std::vector<rdma_choice> choose_rdma(const std::vector<port>& ports,
                                     const std::vector<rails::nic>& nics,
                                     const std::vector<rails::rail_end>& rails);

/// @par Errors `errc::bad_option` where `asked` is `rdma_use::on` and a rail has none: which one,
///   and why.
void require_rdma(rdma_use asked, const std::vector<rails::nic>& nics,
                  const std::vector<rails::rail_end>& rails,
                  const std::vector<rdma_choice>& chosen);

}  // namespace tandem::verbs
