#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tandem/detail/ibverbs.hpp>
#include <vector>

namespace tandem::test {
namespace rdma {
class world;
}

/// RDMA devices in memory, all of one process and on one network: while it lives, `find_ibverbs`
/// gives its functions. Reliable connections only; strict where NICs differ, and it fails on
/// demand. What is still open when it ends, destroyed twice, or destroyed with events that nobody
/// acknowledged (where the library would block) fails the test. One at a time. Any thread.
class rdma_double {
 public:
  struct gid {
    std::array<std::uint8_t, 16> bytes{};
    ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
    unsigned interface_index = 0;
    std::optional<std::uint32_t> index = {};  ///< in the table; its place in the list otherwise
  };
  /// The GID of an IP address, as RoCE has them.
  static gid roce(const std::string& address, unsigned interface_index,
                  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2);

  /// A device of one port; the limits are those of soft-RoCE.
  struct device_spec {
    std::string name;
    bool infiniband = false;
    bool up = true;
    ibv_mtu mtu = IBV_MTU_1024;
    std::uint32_t max_msg = 8u << 20;
    std::uint32_t max_inline = 400;
    int max_qp_wr = 16384;
    int max_cqe = 32767;
    int max_sge = 32;
    /// Beyond it registering gives ENOMEM, as RLIMIT_MEMLOCK does.
    std::size_t max_registered = std::numeric_limits<std::size_t>::max();
    /// Whether it registers descriptors; anything that mmap takes will do for one.
    bool dmabuf = false;
    /// Whether completions of a queue pair that was destroyed can still be polled: drivers differ.
    bool keeps_completions = true;
    /// Empty: a link-local one and an IPv4 one (RoCE v2), or that of its GUID (InfiniBand).
    std::vector<gid> gids = {};
  };

  /// What may fail by `fail_next`.
  enum class call {
    get_device_list,
    open_device,
    query_device,
    query_port,
    query_gid_table,
    alloc_pd,
    reg_mr,
    reg_dmabuf_mr,
    create_comp_channel,
    create_cq,
    create_qp,
    modify_qp,
    query_qp,
    post_send,
    post_recv,
    poll_cq,
    req_notify_cq,
    get_cq_event,
    get_async_event,
  };

  /// When what was posted moves.
  enum class delivery {
    at_post,  ///< at once, all the way
    at_poll,  ///< when anybody polls any completion queue; an armed one tells that it is time
    by_pump,  ///< one step for each `pump`
  };

  explicit rdma_double(std::vector<device_spec> devices);
  ~rdma_double();
  rdma_double(const rdma_double&) = delete;
  rdma_double& operator=(const rdma_double&) = delete;

  /// The functions, which a test may change: an old library has no reg_dmabuf_mr.
  detail::ibverbs& table() noexcept;

  void deliver(delivery when);
  /// Takes so many steps, held devices' too, of one device or of all: a message lands, or the
  /// sender hears of it, or a request is flushed, or, when nothing else is left to do, one that
  /// nobody answers is given up. Returns how many there were.
  std::size_t pump(std::size_t most = 1, const std::string& device = {});
  std::size_t pump_all() { return pump(std::numeric_limits<std::size_t>::max()); }
  /// How long a sender that nobody answers goes on trying; at first it gives up at once, or waits
  /// for a pump. A peer that is not yet ready to receive is waited for, for ever if this is none.
  void retry_for(std::chrono::milliseconds how_long);

  /// The port goes down: PORT_ERR, and what is sent from or to it ends in RETRY_EXC_ERR.
  void drop_link(const std::string& device);
  /// Up again: PORT_ACTIVE.
  void restore_link(const std::string& device);
  /// DEVICE_FATAL: everything is flushed, and nothing new can be made.
  void fail_device(const std::string& device);
  /// As `fail_device`, and it is listed no more.
  void remove_device(const std::string& device);
  /// It is there and well again for whoever opens it anew; what was opened before stays dead.
  void restore_device(const std::string& device);
  /// What this device sends lands, but it never hears so: RETRY_EXC_ERR.
  void drop_acks(const std::string& device, bool on);
  /// What this device sends is long under way: it ends in RETRY_EXC_ERR, and lands when this ends
  /// where the queue pair of the peer still receives.
  void delay_packets(const std::string& device, bool on);
  /// Another GID table: GID_CHANGE.
  void change_gids(const std::string& device, std::vector<gid> to);
  /// Nothing of the device moves, completions neither, but by `pump`.
  void hold(const std::string& device, bool on);
  /// The next such call, or the one `after` so many, fails with this errno. Of a list of requests
  /// each counts.
  void fail_next(call which, int error, int after = 0);
  /// The next send request posted, of this device or any, ends so, without landing.
  void fail_next_wr(ibv_wc_status status, const std::string& device = {});

  /// What is not yet destroyed.
  struct objects {
    std::size_t contexts = 0, pds = 0, mrs = 0, channels = 0, cqs = 0, qps = 0;
    std::size_t device_lists = 0;
    std::size_t registered_bytes = 0;
    std::size_t unacked_events = 0;  ///< fetched and not acknowledged, of all three kinds
    bool operator==(const objects&) const = default;
    /// "1 contexts, 2 domains, ...".
    std::string text() const;
  };
  objects open() const;
  /// Asynchronous ones that nobody has fetched yet.
  std::size_t waiting_events() const;

  /// What has happened so far.
  struct traffic {
    std::size_t sends = 0, writes = 0, reads = 0;  ///< that landed
    std::size_t bytes = 0;
    std::size_t rnr = 0;  ///< messages that found no receive posted
    std::size_t cq_overruns = 0;
    std::size_t registrations = 0;
    bool operator==(const traffic&) const = default;
  };
  traffic seen() const;

 private:
  std::unique_ptr<rdma::world> world_;
};

}  // namespace tandem::test
