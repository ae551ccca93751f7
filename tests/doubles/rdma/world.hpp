#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "doubles/rdma/objects.hpp"

namespace tandem::test::rdma {

using call = rdma_double::call;
using delivery = rdma_double::delivery;

/// The state of one double. Its functions require the mutex, unless stated otherwise.
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
  template <class Object, class Base>
  Object* live(const pool<Object>& in, const Base* which, const char* what) {
    Object* const found = in.find(which);
    if (found == nullptr) fail(std::string(what) + ": it was destroyed, or never made");
    return found;
  }
  void fail(const std::string& why);
  /// The errno injected for this call, or 0.
  int injected(call which);

  // Events.
  void post_event(device& of, ibv_event_type what);
  void post_event(qp& of, ibv_event_type what);
  void post_event(cq& of, ibv_event_type what);
  void notify(cq& of);

  // Completions.
  void complete(cq& on, const completion& what);
  void complete_send(qp& of, const send_request& request, ibv_wc_status status);
  void complete_receive(qp& of, const receive_request& request, ibv_wc_status status, ibv_wc with,
                        bool solicited);
  void forget_completions(const qp& of);

  // Memory: the parts in order, or false where a key does not allow it.
  bool resolve(const qp& of, const std::vector<ibv_sge>& parts, bool to_write, spans& into) const;
  bool resolve_remote(const qp& of, std::uint32_t rkey, std::uint64_t at, std::size_t bytes,
                      int access, spans& into) const;

  // Execution.
  enum class progress { made, none, waits, stuck };
  /// To be called after anything that may enable progress.
  void make_progress();
  /// Executes everything that can be executed.
  void run();
  std::size_t pump(std::size_t most, const std::string& device);
  void break_pair(qp& which);
  /// Breaks all its objects for good.
  void kill(device& which);
  void land_late(device& of);
  void retry_for(std::chrono::milliseconds how_long);

  mutable std::mutex mutex;
  detail::ibverbs table{};
  std::vector<std::unique_ptr<device>> devices;
  pool<context> contexts;
  pool<pd> pds;
  pool<mr> mrs;
  pool<comp_channel> channels;
  pool<cq> cqs;
  pool<qp> qps;
  std::vector<std::unique_ptr<ibv_device*[]>> lists;
  std::uint32_t next_key = 1;
  std::uint64_t next_serial = 1;
  rdma_double::traffic seen;
  delivery when = delivery::at_post;

  struct fault {
    call which;
    int error;
    int after;
  };
  std::vector<fault> faults;
  struct request_fault {
    ibv_wc_status status;
    std::string device;
  };
  std::vector<request_fault> request_faults;

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
  progress transmit(qp& from, send_request& request, qp& at);
  progress wait(const qp& from, send_request& request);
  bool send(send_request& request, qp& at, const spans& data);
  progress read(const qp& from, send_request& request, qp& at, const spans& into);
  void finish_receive(const qp& from, const send_request& request, qp& at, std::size_t bytes);
  void reject(send_request& request, ibv_wc_status why, qp& at, ibv_event_type what);
  void fail_unanswered(qp& of);
  void keep_late(const qp& of);
  void announce();
  void run_timer();

  std::vector<late_packet> late_;
  std::size_t turn_ = 0;
  std::chrono::milliseconds retry_time_{0};
  std::condition_variable timer_changed_;
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
