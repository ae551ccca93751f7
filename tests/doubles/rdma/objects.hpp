#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "doubles/rdma/double.hpp"

// The objects behind the library's handles, with what the double knows of each.
namespace tandem::test::rdma {

/// Events to be fetched, with a descriptor that is readable while there are some. The descriptor's
/// flags decide whether fetching blocks.
template <class Event>
class event_queue {
 public:
  event_queue() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}
  ~event_queue() { ::close(fd_); }
  event_queue(const event_queue&) = delete;
  event_queue& operator=(const event_queue&) = delete;

  int fd() const noexcept { return fd_; }
  std::size_t size() const noexcept { return waiting_.size(); }
  void push(const Event& one) {
    waiting_.push_back(one);
    ::eventfd_write(fd_, 1);
  }
  /// The descriptor's count is not reduced: a fetch that finds no event tries again.
  template <class Which>
  void forget(Which which) {
    std::erase_if(waiting_, which);
  }
  /// 0, or -1 and errno. Locks the mutex only where nothing blocks.
  template <class Mutex, class Note>
  int fetch(Mutex& mutex, Event& into, Note note) {
    for (;;) {
      eventfd_t one = 0;
      if (::eventfd_read(fd_, &one) != 0) return -1;
      const std::lock_guard lock(mutex);
      if (waiting_.empty()) continue;
      into = waiting_.front();
      waiting_.pop_front();
      note();
      return 0;
    }
  }

 private:
  int fd_;
  std::deque<Event> waiting_;
};

struct device : ibv_device {
  device() : ibv_device{} {}
  rdma_double::device_spec spec;
  std::uint16_t lid = 0;
  std::uint64_t guid = 0;
  std::uint32_t next_qpn = 17;  ///< same start for all: a number does not identify a pair
  std::size_t registered = 0;
  bool up = true;
  bool dead = false;
  bool listed = true;
  bool held = false;
  bool acks_lost = false;
  bool packets_late = false;
};

struct context : ibv_context {
  context() : ibv_context{} {}
  rdma::device& from() const { return *static_cast<rdma::device*>(device); }
  bool lost = false;  ///< the device failed while it was open
  event_queue<ibv_async_event> events;
  std::size_t unacked = 0;  ///< of the port or the device
};

struct pd : ibv_pd {
  pd() : ibv_pd{} {}
};

struct mr : ibv_mr {
  mr() : ibv_mr{} {}
  std::byte* memory = nullptr;
  std::uint64_t iova = 0;
  int access = 0;
  bool mapped = false;
};

struct comp_channel : ibv_comp_channel {
  comp_channel() : ibv_comp_channel{} {}
  event_queue<ibv_cq*> events;
};

struct completion {
  ibv_wc wc;
  std::uint64_t qp_serial;
  bool of_send;
  bool solicited;
  std::uint64_t number;  ///< of the request in its queue
};

enum class arming { none, solicited, all };

struct cq : ibv_cq {
  cq() : ibv_cq{} {}
  std::deque<completion> waiting;
  arming armed = arming::none;
  bool broken = false;
  std::uint32_t events_fetched = 0;
  std::uint32_t async_fetched = 0;

  bool signals(bool with_solicited) const {
    return armed == arming::all || (armed == arming::solicited && with_solicited);
  }
  void notify() {
    armed = arming::none;
    if (channel != nullptr) static_cast<comp_channel*>(channel)->events.push(this);
  }
};

struct send_request {
  std::uint64_t wr_id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::vector<ibv_sge> parts;
  std::vector<std::byte> inlined;  ///< copied when posted
  bool is_inline = false;
  bool signalled = false;
  bool solicited = false;
  std::uint32_t imm = 0;
  std::uint64_t remote_addr = 0;
  std::uint32_t rkey = 0;
  std::uint64_t number = 0;

  bool decided = false;  ///< `outcome` is known, but not yet completed
  bool local = false;    ///< determined without an answer of the peer
  bool found_no_receive = false;
  ibv_wc_status outcome = IBV_WC_SUCCESS;
};

struct receive_request {
  std::uint64_t wr_id = 0;
  std::vector<ibv_sge> parts;
};

using spans = std::vector<std::span<std::byte>>;

/// What became of a step of a queue pair.
enum class progress { made, none, waits, stuck };

struct qp : ibv_qp {
  qp() : ibv_qp{} {}
  device& from() const { return static_cast<rdma::context*>(context)->from(); }
  void to_error() { now = IBV_QPS_ERR; }

  std::uint64_t serial = 0;
  ibv_qp_state now = IBV_QPS_RESET;  ///< `state` is only the last one requested
  ibv_qp_init_attr made_as{};
  ibv_qp_attr attr{};
  rdma_double::gid source{};  ///< that of `attr.ah_attr.grh.sgid_index`
  std::deque<send_request> sends;
  std::deque<receive_request> receives;
  std::uint64_t posted = 0;                             ///< send requests so far
  std::uint64_t freed = 0;                              ///< of them, whose slots are free again
  std::size_t receive_slots = 0;                        ///< in use: from posting to polling
  bool established = false;                             ///< something has arrived
  std::uint32_t async_fetched = 0;                      ///< events
  std::chrono::steady_clock::time_point stuck_since{};  ///< zero: not stuck
};

/// A request that failed at its sender but is still in the network.
struct late_packet {
  device* by;
  qp sender;  ///< a copy
  send_request request;
  std::uint64_t to_serial;
};

/// Owns objects, in the order of creation.
template <class Object>
class pool {
 public:
  Object& add(std::unique_ptr<Object> one) { return *all_.emplace_back(std::move(one)); }
  /// By address, which may be of a destroyed object.
  template <class Base>
  Object* find(const Base* which) const {
    const auto at = place(which);
    return at == all_.end() ? nullptr : at->get();
  }
  template <class Base>
  void remove(const Base* which) {
    all_.erase(place(which));
  }
  template <class Is>
  bool any(Is is) const {
    return std::any_of(all_.begin(), all_.end(), [&](const auto& one) { return is(*one); });
  }
  std::size_t size() const noexcept { return all_.size(); }
  Object& operator[](std::size_t at) const { return *all_[at]; }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  template <class Base>
  auto place(const Base* which) const {
    return std::find_if(all_.begin(), all_.end(),
                        [&](const auto& one) { return static_cast<Base*>(one.get()) == which; });
  }
  std::vector<std::unique_ptr<Object>> all_;
};

}  // namespace tandem::test::rdma
