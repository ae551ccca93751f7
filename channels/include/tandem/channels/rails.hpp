#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>
#include <vector>

/// Many NICs as one channel. A rail is a NIC on each side and the streams bound to it.
namespace tandem::rails {

/// An interface of this machine, and whether it is a rail.
struct rail_choice {
  std::string interface;
  std::string kind;                    ///< "ethernet", "wireless", "veth", "loopback", ...
  std::string mac;                     ///< empty: none
  std::vector<std::string> addresses;  ///< "10.1.0.2/24", all that it has
  std::int64_t speed_mbit = -1;        ///< -1: unknown
  int numa_node = -1;                  ///< -1: unknown
  int mtu = 0;                         ///< bytes
  bool up = false;                     ///< switched on, and there is a carrier
  bool chosen = false;
  std::string reason;       ///< "chosen: up, ethernet, 10.1.0.2/24", "left out: down"
  std::string rdma;         ///< "rxe0 port 1, GID 1 (RoCE v2, 10.1.0.2)"; empty: no RDMA on it
  std::string rdma_reason;  ///< why `rdma` is empty, and what to do; empty: it is not
  /// Other RDMA ports and GIDs of this interface, and why they are not used; a few lines.
  std::vector<std::string> rdma_left_out;
  /// What the device of `rdma` can do, as it says when it is tried: "messages up to 8 MiB",
  /// "inline sending up to 256 bytes".
  std::vector<std::string> rdma_can;
  /// What it cannot, with the reason: "no dma-buf: ibv_reg_dmabuf_mr: Operation not supported".
  std::vector<std::string> rdma_cannot;
};

/// Every interface of this machine and what `options.rails` makes of it. Loopback only without
/// `options.insecure`. Looks for RDMA on each unless `options.rdma` is off; a device that cannot be
/// read is logged as a warning. Asks the kernel and the RDMA devices; milliseconds.
/// @par Errors `errc::bad_option`: a word of `options.rails` that is wrong or means nothing here.
std::vector<rail_choice> explain_rails(const settings& options);

/// An RDMA device of this machine, and whether rails over it move an accelerator's memory from
/// where it lies (`tandem::devices::make_fabric`).
struct nic_reach {
  std::string device;  ///< "mlx5_0"
  bool reaches = false;
  std::string why;  ///< how, or why not and what is missing
};
struct nics_that_reach {
  std::vector<nic_reach> all;
  std::string why_none;  ///< "no RDMA here: ...", one line with what to do; empty: there are some
};
/// Of memory of this kind. Opens every device and closes it again; milliseconds.
/// @param exports_dma_buf  `accelerator_facts::exports_dma_buf`
nics_that_reach find_nics_that_reach(memory_kind kind, bool exports_dma_buf);

/// The ranks that met in `meeting`, each pair connected over all rails that they share when they
/// first need each other. Short messages take one rail, long ones are cut into chunks that the
/// rails pull as fast as each of them goes. A rail that dies hands what did not arrive to the
/// others, and comes back when it is healed; only a rank that is silent on every rail for
/// `settings::peer_timeout` is lost. Where the store has a `data_key`, every connection proves it
/// and, with `settings::encrypt`, is encrypted with keys derived from it.
/// @par Errors as `tcp::make_fabric`; `errc::bad_option` where `settings::rails` leaves none.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options);

}  // namespace tandem::rails
