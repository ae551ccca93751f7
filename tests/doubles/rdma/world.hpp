#pragma once

#include <condition_variable>
#include <string>
#include <thread>
#include <vector>

#include "doubles/allocations.hpp"
#include "doubles/rdma/completions.hpp"
#include "doubles/rdma/events.hpp"
#include "doubles/rdma/faults.hpp"
#include "doubles/rdma/memory.hpp"
#include "doubles/rdma/objects.hpp"
#include "doubles/rdma/responder.hpp"

namespace tandem::test::rdma {

using delivery = rdma_double::delivery;

/// The state of one double, and the execution of its requests. Its functions and those of its
/// parts require the mutex, unless stated otherwise.
class world {
 public:
  explicit world(std::vector<rdma_double::device_spec> specs);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// The live double's state, which the library's functions use. Never null.
  static world& current();

  // Objects.
  device& named(const std::string& name);
  /// The object at this address, or null and a failed test.
  template <class Owner, class Base>
  auto live(const Owner& in, const Base* which, const char* what) {
    const auto found = in.find(which);
    if (found == nullptr) fail(std::string(what) + ": it was destroyed, or never made");
    return found;
  }
  void fail(const std::string& why);

  // Execution.
  /// To be called after anything that may enable progress.
  void make_progress();
  /// Executes everything that can be executed.
  void run();
  std::size_t pump(std::size_t most, const std::string& device);
  /// Breaks all its objects for good.
  void kill(device& which);
  void land_late(device& of);
  void retry_for(std::chrono::milliseconds how_long);

  mutable simulation_mutex mutex;
  detail::ibverbs table{};
  std::vector<std::unique_ptr<device>> devices;
  pool<context> contexts;
  pool<pd> pds;
  pool<comp_channel> channels;
  pool<qp> qps;
  std::vector<std::unique_ptr<ibv_device*[]>> lists;
  std::uint64_t next_serial = 1;
  rdma_double::traffic seen;
  delivery when = delivery::at_post;

  injected_faults faults;
  memory_regions memory{seen};
  async_events events{contexts};
  completion_queues completions{qps, events, seen};

 private:
  struct target {
    device* at = nullptr;
    qp* pair = nullptr;  ///< null: no answer
    bool ready = false;
  };
  target target_of(const qp& from) const;
  bool is_held(const qp& which) const;
  bool concerns(const qp& which, const std::string& device) const;

  progress step(qp& of);
  progress flush(qp& of);
  bool advance(qp& of);
  void fail_unanswered(qp& of);
  void keep_late(const qp& of);
  void announce();
  void run_timer();

  responder responder_{memory, completions, events, seen};
  std::vector<late_packet> late_;
  std::size_t turn_ = 0;
  std::chrono::milliseconds retry_time_{0};
  std::condition_variable_any timer_changed_;
  bool over_ = false;
  std::thread clock_;
};

/// Sets the index of each.
std::vector<rdma_double::gid> numbered(std::vector<rdma_double::gid> gids);

// Each adds its functions to the table.
void fill_devices(detail::ibverbs& table);
void fill_events(detail::ibverbs& table);
void fill_memory(detail::ibverbs& table);
void fill_completions(detail::ibverbs& table);
void fill_queue_pairs(detail::ibverbs& table);
/// Those that the library's header calls through the context.
void fill_completions(ibv_context_ops& ops);
void fill_posting(ibv_context_ops& ops);

}  // namespace tandem::test::rdma
