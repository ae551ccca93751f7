#include "doubles/rdma/world.hpp"

// When posted requests are executed, and whether the responder can receive them.
namespace tandem::test::rdma {
namespace {

using clock = std::chrono::steady_clock;

bool has(const device& which, const rdma_double::gid& what) {
  return std::any_of(which.spec.gids.begin(), which.spec.gids.end(), [&](const auto& one) {
    return one.bytes == what.bytes && one.type == what.type;
  });
}

/// The queue pair at the address, if it exists and the local address is still valid.
device* addressed(const std::vector<std::unique_ptr<device>>& devices, const qp& from) {
  const ibv_ah_attr& to = from.attr.ah_attr;
  rdma_double::gid wanted{.type = from.source.type};
  std::copy(std::begin(to.grh.dgid.raw), std::end(to.grh.dgid.raw), wanted.bytes.begin());
  if (to.is_global && !has(from.from(), from.source)) return nullptr;
  for (const auto& one : devices) {
    if (one->spec.infiniband != from.from().spec.infiniband) continue;
    if (one->spec.infiniband && one->lid != to.dlid) continue;
    if (!to.is_global || has(*one, wanted)) return one.get();
  }
  return nullptr;
}

}  // namespace

world::target world::target_of(const qp& from) const {
  target to{addressed(devices, from)};
  for (const auto& one : qps) {
    if (&one->from() != to.at || one->qp_num != from.attr.dest_qp_num) continue;
    if (one->now == IBV_QPS_ERR) break;
    to.ready = one->now == IBV_QPS_RTR || one->now == IBV_QPS_RTS;
    // Packets of other queue pairs, and those out of sequence, are not answered.
    if (to.ready && (one->attr.dest_qp_num != from.qp_num || one->attr.rq_psn != from.attr.sq_psn ||
                     addressed(devices, *one) != &from.from())) {
      break;
    }
    to.pair = one.get();
  }
  return to;
}

bool world::is_held(const qp& which) const {
  const device* const at = addressed(devices, which);
  return which.from().held || (at != nullptr && at->held);
}

bool world::concerns(const qp& which, const std::string& name) const {
  if (name.empty() || which.from().spec.name == name) return true;
  const device* const at = addressed(devices, which);
  return at != nullptr && at->spec.name == name;
}

progress world::flush(qp& of) {
  if (!of.sends.empty()) {
    completions.complete_send(of, of.sends.front(), IBV_WC_WR_FLUSH_ERR);
    of.sends.pop_front();
    return progress::made;
  }
  if (of.receives.empty()) return progress::none;
  completions.complete_receive(of, of.receives.front(), IBV_WC_WR_FLUSH_ERR, {}, false);
  of.receives.pop_front();
  return progress::made;
}

progress world::step(qp& of) {
  if (of.now == IBV_QPS_ERR) return flush(of);
  if (of.now != IBV_QPS_RTS || of.sends.empty()) return progress::none;
  const target to = target_of(of);
  const bool linked = of.from().up && !of.from().packets_late && to.at != nullptr && to.at->up;
  send_request& first = of.sends.front();
  if (first.decided && (first.local || (linked && !of.from().acks_lost))) {
    const send_request done = std::move(first);
    of.sends.pop_front();
    completions.complete_send(of, done, done.outcome);
    if (done.outcome != IBV_WC_SUCCESS) of.to_error();
    return progress::made;
  }
  progress got = progress::none;
  for (send_request& next : of.sends) {
    if (next.decided && next.outcome != IBV_WC_SUCCESS) break;
    if (next.decided) continue;
    got = !linked || to.pair == nullptr ? progress::stuck
          : !to.ready                   ? progress::waits
                                        : responder_.execute(of, next, *to.pair);
    break;
  }
  return got != progress::made && first.decided ? progress::stuck : got;
}

void world::fail_unanswered(qp& of) {
  if (of.from().packets_late) keep_late(of);
  send_request& first = of.sends.front();
  first.outcome = IBV_WC_RETRY_EXC_ERR;
  first.decided = first.local = true;
  of.stuck_since = {};
}

/// Keeps its data: the sender may reuse the memory now.
void world::keep_late(const qp& of) {
  const target to = target_of(of);
  if (to.pair == nullptr) return;
  for (const send_request& request : of.sends) {
    spans data;
    if (request.decided || request.opcode == IBV_WR_RDMA_READ) continue;
    if (!request.is_inline && !memory.resolve(of, request.parts, false, data)) return;
    late_packet kept{&of.from(), of, request, to.pair->serial};
    for (const auto& part : data) {
      kept.request.inlined.insert(kept.request.inlined.end(), part.begin(), part.end());
    }
    kept.request.is_inline = true;
    kept.sender.sends.clear();
    late_.push_back(std::move(kept));
  }
}

void world::land_late(device& of) {
  for (late_packet& one : late_) {
    for (const auto& at : qps) {
      const bool receives = at->now == IBV_QPS_RTR || at->now == IBV_QPS_RTS;
      if (one.by == &of && at->serial == one.to_serial && receives) {
        responder_.execute(one.sender, one.request, *at);
      }
    }
  }
  std::erase_if(late_, [&](const late_packet& one) { return one.by == &of; });
}

bool world::advance(qp& of) {
  const progress got = step(of);
  if (got == progress::made || got == progress::none) {
    of.stuck_since = {};
    return got == progress::made;
  }
  const bool times = retry_time_.count() > 0;
  if (times && of.stuck_since == clock::time_point{}) {
    of.stuck_since = clock::now();
    timer_changed_.notify_all();
  }
  const bool enough = times ? clock::now() >= of.stuck_since + retry_time_ : got == progress::stuck;
  if (enough) fail_unanswered(of);
  return enough;
}

void world::run() {
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& one : qps) {
      if (!is_held(*one)) moved |= advance(*one);
    }
  }
}

std::size_t world::pump(std::size_t most, const std::string& device) {
  std::size_t done = 0;
  const auto next = [&](auto moves) {
    for (std::size_t i = 0; i < qps.size(); ++i) {
      qp& one = qps[(turn_ + i) % qps.size()];
      if (!concerns(one, device) || !moves(one)) continue;
      turn_ = (turn_ + i + 1) % qps.size();
      return true;
    }
    return false;
  };
  while (done < most) {
    if (!next([&](qp& one) { return step(one) == progress::made; }) && !next([&](qp& one) {
          const bool stuck = step(one) == progress::stuck;
          if (stuck) fail_unanswered(one);
          return stuck;
        })) {
      break;
    }
    ++done;
  }
  return done;
}

/// A completion queue is polled only when signalled: signals those that the next steps may affect.
void world::announce() {
  for (const auto& one : qps) {
    if (is_held(*one)) continue;
    auto& own = static_cast<cq&>(*one->send_cq);
    auto& received = static_cast<cq&>(*one->recv_cq);
    const bool flushes = one->now == IBV_QPS_ERR;
    if (!one->sends.empty() && own.armed != arming::none) own.notify();
    if (flushes && !one->receives.empty() && received.armed != arming::none) received.notify();
    const target to = target_of(*one);
    if (flushes || one->sends.empty() || to.pair == nullptr) continue;
    auto& there = static_cast<cq&>(*to.pair->recv_cq);
    const bool solicited = std::any_of(one->sends.begin(), one->sends.end(),
                                       [](const auto& request) { return request.solicited; });
    if (there.signals(solicited)) there.notify();
  }
}

void world::make_progress() {
  if (when == delivery::at_post) run();
  if (when == delivery::at_poll) announce();
}

void world::kill(device& which) {
  events.post(which, IBV_EVENT_DEVICE_FATAL);
  for (const auto& one : contexts) {
    if (&one->from() == &which) one->lost = true;
  }
  for (const auto& one : qps) {
    if (&one->from() == &which) one->to_error();
  }
  make_progress();
}

void world::retry_for(std::chrono::milliseconds how_long) {
  retry_time_ = how_long;
  if (how_long.count() > 0 && !clock_.joinable()) clock_ = std::thread([this] { run_timer(); });
}

/// Fails requests that were not answered for long enough, if no call does.
void world::run_timer() {
  std::unique_lock lock(mutex);
  while (!over_) {
    auto first = clock::time_point::max();
    for (const auto& one : qps) {
      if (one->stuck_since != clock::time_point{}) {
        first = std::min(first, one->stuck_since + retry_time_);
      }
    }
    if (first == clock::time_point::max()) {
      timer_changed_.wait(lock);
    } else if (clock::now() < first) {
      timer_changed_.wait_until(lock, first);
    } else {
      run();
    }
  }
}

}  // namespace tandem::test::rdma
