#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>
#include <vector>

/// Several NICs as one channel. A rail is a pair of NICs, one on each side, and the connections
/// bound to it.
namespace tandem::rails {

/// A network interface of this machine, and whether it is used as a rail.
struct rail_choice {
  std::string interface;
  std::string kind;                    ///< "ethernet", "wireless", "veth", "loopback", ...
  std::string mac;                     ///< empty: none
  std::vector<std::string> addresses;  ///< all of them: "10.1.0.2/24"
  std::int64_t speed_mbit = -1;        ///< -1: unknown
  int numa_node = -1;                  ///< -1: unknown
  int mtu = 0;                         ///< bytes
  bool up = false;                     ///< administratively up, with a carrier
  bool chosen = false;
  std::string reason;       ///< "chosen: up, ethernet, 10.1.0.2/24", "left out: down"
  std::string rdma;         ///< "rxe0 port 1, GID 1 (RoCE v2, 10.1.0.2)"; empty: no RDMA on it
  std::string rdma_reason;  ///< why `rdma` is empty, and what to do; empty where `rdma` is set
  /// Other RDMA ports and GIDs of this interface, and why they are not used; a few lines.
  std::vector<std::string> rdma_left_out;
  /// Capabilities of the device of `rdma`, as probed: "messages up to 8 MiB", "inline sending up to
  /// 256 bytes".
  std::vector<std::string> rdma_can;
  /// Missing capabilities, with the reason: "no dma-buf: ibv_reg_dmabuf_mr: Operation not
  /// supported".
  std::vector<std::string> rdma_cannot;
};

/// Every interface of this machine, and whether `options.rails` selects it. Without a job secret
/// only loopback, unless `options.insecure`. Looks for RDMA on each unless `options.rdma` is off; a
/// device that cannot be read is logged as a warning. Queries the kernel and the RDMA devices;
/// milliseconds.
/// @par Errors `errc::bad_option`: a term of `options.rails` that is invalid or matches nothing.
std::vector<rail_choice> explain_rails(const settings& options);

/// An RDMA device of this machine, and whether it can access accelerator memory directly
/// (`tandem::devices::make_fabric`).
struct nic_reach {
  std::string device;  ///< "mlx5_0"
  bool reaches = false;
  std::string why;  ///< how, or why not and what is missing
};
struct nics_that_reach {
  std::vector<nic_reach> all;
  std::string why_none;  ///< "no RDMA here: ...", one line with what to do; empty: there are some
};
/// For memory of this kind. Opens and closes every device; milliseconds.
/// @param exports_dma_buf  `accelerator_facts::exports_dma_buf`
nics_that_reach find_nics_that_reach(memory_kind kind, bool exports_dma_buf);

/// Connects the ranks of `meeting`, each pair on first use and over all rails that they share. A
/// short message uses one rail; a long one is divided into chunks, and each rail takes the next
/// chunk whenever it has capacity. When a rail fails, its undelivered chunks are sent over the
/// others, and it is used again once it recovers; a rank is lost only when it is silent on every
/// rail for `settings::peer_timeout`. Where the store has a `data_key`, every connection is
/// authenticated with it and, with `settings::encrypt`, encrypted with keys derived from it.
/// @par Errors as `tcp::make_fabric`; `errc::bad_option` where `settings::rails` matches no
///   interface.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options);

}  // namespace tandem::rails
