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

/// Simulated RDMA devices, all of one process and on one network: while it lives, `find_ibverbs`
/// returns its functions. Reliable connections only; strict where NICs differ, and it fails calls
/// on request. Objects that are still open at its end, destroyed twice, or destroyed with
/// unacknowledged events (where the library would block) fail the test. One at a time; usable from
/// any thread.
class rdma_double {
 public:
  struct gid {
    std::array<std::uint8_t, 16> bytes{};
    ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
    unsigned interface_index = 0;
    std::optional<std::uint32_t> index = {};  ///< in the table; default: its position in the list
  };
  /// The GID of an IP address for RoCE.
  static gid roce(const std::string& address, unsigned interface_index,
                  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2);

  /// A device with one port and the limits of soft-RoCE.
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
    /// Beyond it a registration fails with ENOMEM, as for RLIMIT_MEMLOCK.
    std::size_t max_registered = std::numeric_limits<std::size_t>::max();
    /// Whether it registers dma-bufs; any descriptor that mmap accepts is one.
    bool dmabuf = false;
    /// Whether completions of a destroyed queue pair can still be polled: drivers differ.
    bool keeps_completions = true;
    /// Empty: a link-local and an IPv4 GID (RoCE v2), or that of its GUID (InfiniBand).
    std::vector<gid> gids = {};
  };

  /// The calls for `fail_next`.
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

  /// When posted requests are executed.
  enum class delivery {
    at_post,  ///< at once, until completion
    at_poll,  ///< whenever any completion queue is polled; an armed one is signalled
    by_pump,  ///< one step for each `pump`
  };

  explicit rdma_double(std::vector<device_spec> devices);
  ~rdma_double();
  rdma_double(const rdma_double&) = delete;
  rdma_double& operator=(const rdma_double&) = delete;

  /// The functions, which a test may change: an old library has no reg_dmabuf_mr.
  detail::ibverbs& table() noexcept;

  void deliver(delivery when);
  /// Executes up to `most` steps, also of held devices, of one device or of all: a message lands,
  /// or its sender completes it, or a request is flushed, or, when nothing else is left, an
  /// unanswered one fails. Returns the number of steps.
  std::size_t pump(std::size_t most = 1, const std::string& device = {});
  std::size_t pump_all() { return pump(std::numeric_limits<std::size_t>::max()); }
  /// How long a sender retries without an answer; by default it fails at once, or at the next pump.
  /// A receiver that is not ready is retried for as long, or without limit if this is 0.
  void retry_for(std::chrono::milliseconds how_long);

  /// The port goes down: PORT_ERR, and requests from or to it fail with RETRY_EXC_ERR.
  void drop_link(const std::string& device);
  /// Up again: PORT_ACTIVE.
  void restore_link(const std::string& device);
  /// DEVICE_FATAL: everything is flushed, and no object can be created.
  void fail_device(const std::string& device);
  /// As `fail_device`, and it is not listed any more.
  void remove_device(const std::string& device);
  /// The device works again when it is opened anew; earlier contexts stay dead.
  void restore_device(const std::string& device);
  /// Requests of this device land, but are never acknowledged: RETRY_EXC_ERR.
  void drop_acks(const std::string& device, bool on);
  /// Requests of this device are delayed: they fail with RETRY_EXC_ERR, and land when the delay
  /// ends, if the peer's queue pair still receives.
  void delay_packets(const std::string& device, bool on);
  /// Changes the GID table: GID_CHANGE.
  void change_gids(const std::string& device, std::vector<gid> to);
  /// The device makes progress only by `pump`, completions included.
  void hold(const std::string& device, bool on);
  /// The next such call, or the one after `after` others, fails with this errno. Each request of a
  /// list counts.
  void fail_next(call which, int error, int after = 0);
  /// The next send request posted, of this device or any, completes with this status, without
  /// landing.
  void fail_next_wr(ibv_wc_status status, const std::string& device = {});

  /// Objects that are still open.
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
  /// Asynchronous events that are not fetched.
  std::size_t waiting_events() const;

  /// Activity so far.
  struct traffic {
    std::size_t sends = 0, writes = 0, reads = 0;  ///< that landed
    std::size_t bytes = 0;
    std::size_t rnr = 0;  ///< messages for which no receive was posted
    std::size_t cq_overruns = 0;
    std::size_t registrations = 0;
    bool operator==(const traffic&) const = default;
  };
  traffic seen() const;

 private:
  std::unique_ptr<rdma::world> world_;
};

}  // namespace tandem::test
