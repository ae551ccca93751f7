#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tandem/detail/ibverbs.hpp>
#include <tandem/settings.hpp>
#include <vector>

/// RDMA through libibverbs, which is opened at run time.
namespace tandem::verbs {

using gid_bytes = std::array<std::byte, 16>;

enum class gid_kind : std::uint8_t { infiniband, roce_v1, roce_v2 };

/// One address of a port.
struct gid_entry {
  int index = 0;  ///< in the port's table
  gid_bytes raw{};
  gid_kind kind = gid_kind::infiniband;
  int interface_index = 0;  ///< the network interface that it belongs to; 0: none here
};

/// Limits of a device, as it reports them.
struct device_limits {
  int max_qp = 0;
  int max_qp_wr = 0;  ///< work requests of a queue
  int max_sge = 0;    ///< scatter/gather entries of one request
  int max_cq = 0;
  int max_cqe = 0;  ///< entries of a completion queue
  int max_pd = 0;
  int max_mr = 0;                    ///< registrations
  std::uint64_t max_mr_size = 0;     ///< bytes of one registration
  int max_qp_rd_atom = 0;            ///< outstanding RDMA reads as responder, per queue pair
  int max_qp_init_rd_atom = 0;       ///< outstanding RDMA reads as initiator
  std::uint8_t local_ack_delay = 0;  ///< exponent of 4.096 us: maximum delay of acknowledgements
};

/// One port of an RDMA device of this machine.
struct port {
  std::string device;  ///< "mlx5_0", "rxe0"
  std::uint8_t number = 1;
  bool active = false;
  bool ethernet = false;  ///< RoCE; else InfiniBand
  std::uint16_t lid = 0;  ///< 0 on Ethernet, and without a subnet manager
  int mtu_bytes = 0;      ///< active
  std::uint64_t max_message_bytes = 0;
  std::int64_t speed_mbit = -1;  ///< -1: unknown
  int numa_node = -1;            ///< -1: unknown, or the machine has one
  device_limits limits;
  std::vector<gid_entry> gids;  ///< by index; empty entries are left out
};

/// The ports of every RDMA device, in the library's order. Opens each device and closes it again.
/// A device that cannot be opened or read is left out, with a line in `problems`: device, call,
/// reason, what to do. So are iWARP and other transports than InfiniBand's. About a millisecond for
/// each device.
/// @param only  the device of this name; empty: all
std::vector<port> find_ports(const detail::ibverbs& driver, std::vector<std::string>* problems,
                             std::string_view only = {});

/// The RDMA ports of this machine.
struct local_ports {
  std::vector<port> all;
  std::string why_none;  ///< "no RDMA here: ...", one line with what to do; empty: there is some
  /// Devices that could not be read while others could: one line each.
  std::vector<std::string> problems;
};

/// Opens libibverbs and queries every device, unless `asked` is `rdma_use::off`. Milliseconds.
local_ports find_local_ports(rdma_use asked);

/// Mbit/s of a port from its speed and width as encoded in `ibv_port_attr`; -1: unknown.
std::int64_t lane_speed_mbit(std::uint8_t active_speed, std::uint8_t active_width) noexcept;

}  // namespace tandem::verbs
