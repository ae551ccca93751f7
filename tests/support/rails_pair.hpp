#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "doubles/fake_nic.hpp"
#include "support/session_pair.hpp"
#include "transports/rails/core.hpp"
#include "transports/rails/lane_reader.hpp"

namespace tandem::test {

inline constexpr std::size_t kib = 1024, mib = 1024 * kib;

/// Two ends of a channel over rails and the wires between them, with simulated time; nothing moves
/// but step by step.
class rails_pair {
 public:
  struct end_state {
    std::unique_ptr<rails::core> core;
    std::vector<std::unique_ptr<rails::lane_reader>> readers;  // null: closed here
    std::vector<std::optional<rails::lane_write>> in_hand;     // taken, not yet sent
    std::vector<std::string> inbox;                            // in flight to this end, by lane
    std::vector<bool> passes;                                  // false: nothing gets through to it
    fake_nic nic;
    std::vector<std::deque<nic_request>> posted;                     // by lane
    std::vector<std::deque<rails::dma_tracker::token>> completions;  // completed, by lane
    /// Closed lanes whose NIC has not quiesced, and the writes that it may still execute.
    struct draining {
      std::uint16_t lane;
      std::uint32_t epoch;
      std::deque<nic_request> posted;
    };
    std::vector<draining> closing;
  };

  /// @param standing_by  the standby lanes; none by default
  rails_pair(const protocol::limits& limits, std::size_t lanes, const rails::timeouts& bounds,
             std::vector<bool> standing_by = {}, bool direct = false)
      : is_standby(std::move(standing_by)), drains_late(direct) {
    for (const int side : {0, 1}) {
      end_state& e = ends[side];
      e.core = std::make_unique<rails::core>(limits, protocol::identity{side, 1 - side, "wires"},
                                             std::chrono::minutes(1), lanes, bounds, true);
      if (direct) {
        e.core->use_registrar(&e.nic);
        e.core->messages().set_view_writer(&e.nic);
      }
      e.posted.resize(lanes);
      e.completions.resize(lanes);
      e.readers.resize(lanes);
      e.in_hand.resize(lanes);
      e.inbox.resize(lanes);
      e.passes.assign(lanes, true);
    }
    is_standby.resize(lanes);
    for (std::uint16_t i = 0; i < lanes; ++i) heal(i);
  }

  rails::core& core(int side) { return *ends[side].core; }
  bool is_open(int side, std::uint16_t lane) const { return ends[side].readers[lane] != nullptr; }
  std::uint16_t lanes() const { return static_cast<std::uint16_t>(ends[0].readers.size()); }

  void start(int side, operation& op) {
    core(side).messages().start(op);
    if (core(side).messages().take_if_done(op)) over(op);
  }
  void cancel(int side, operation& op) {
    core(side).messages().cancel(op);
    collect(side);
  }

  /// Takes the next write of a lane; false if there is none.
  bool take(int side, std::uint16_t lane) {
    end_state& e = ends[side];
    if (!is_open(side, lane) || e.in_hand[lane]) return false;
    rails::lane_write p;
    const bool any = e.core->next(lane, p, now);
    collect(side);
    if (any) e.in_hand[lane] = p;
    return any;
  }
  /// Sends the write that was taken.
  void put(int side, std::uint16_t lane) {
    end_state& e = ends[side];
    if (!e.in_hand[lane]) return;
    const rails::lane_write p = *e.in_hand[lane];
    e.in_hand[lane].reset();
    if (p.placed) e.core->placing(lane, p);
    e.core->written(p);
    if (!is_open(1 - side, lane) || (omits_fences && is_fence(p))) return;
    nic_request request{{reinterpret_cast<const char*>(p.head.data()), p.head_bytes},
                        p.placed,
                        p.payload,
                        epoch_of(lane)};
    if (!p.placed) {
      request.head.append(static_cast<const char*>(p.payload.data), p.payload.bytes);
    }
    e.posted[lane].push_back(std::move(request));
    if (!drains_late) move(side, lane);
  }

  /// The NIC executes its next request.
  void move(int side, std::uint16_t lane) {
    std::deque<nic_request>& posted = ends[side].posted[lane];
    if (posted.empty()) return;
    const nic_request request = std::move(posted.front());
    posted.pop_front();
    touch(side, lane, request);
    if (request.placed) ends[side].completions[lane].push_back(request.placed->token);
    if (is_open(1 - side, lane)) ends[1 - side].inbox[lane].append(request.head);
  }
  /// Delivers the sender's oldest completion.
  void deliver_completion(int side, std::uint16_t lane) {
    auto& completions = ends[side].completions[lane];
    if (completions.empty()) return;
    const rails::dma_tracker::token which = completions.front();
    completions.pop_front();
    core(side).placed(lane, which);
    collect(side);
  }
  /// The NIC executes another request of a lane that was closed here, or quiesces.
  void drain(int side, bool stops) {
    auto& closing = ends[side].closing;
    if (closing.empty()) return;
    auto& first = closing.front();
    if (!stops && !first.posted.empty()) {
      touch(side, first.lane, first.posted.front());
      first.posted.pop_front();
      return;
    }
    const auto done = std::move(first);
    closing.erase(closing.begin());
    core(side).lane_quiesced(done.lane, done.epoch);
    collect(side);
  }
  bool write(int side, std::uint16_t lane) {
    if (!take(side, lane)) return false;
    put(side, lane);
    return true;
  }

  /// Delivers at most `most` bytes to `side`.
  void deliver(int side, std::uint16_t lane, std::size_t most) {
    end_state& e = ends[side];
    if (!is_open(side, lane) || !e.passes[lane]) return;
    std::string& wire = e.inbox[lane];
    std::size_t left = std::min(most, wire.size()), done = 0;
    while (left > 0 && good) {
      std::size_t taken = 0;
      for (const iovec part : e.readers[lane]->buffers()) {
        const std::size_t n = std::min(part.iov_len, left);
        std::memcpy(part.iov_base, wire.data() + done + taken, n);
        taken += n;
        left -= n;
      }
      done += taken;
      using outcome = rails::lane_reader::outcome;
      const outcome came = e.readers[lane]->advance(taken, now);
      good = came != outcome::violated;
      EXPECT_TRUE(good) << "side " << side << " lane " << lane << ": " << e.readers[lane]->why();
      if (came == outcome::broken) {
        ++broken;
        collect(side);
        return close(side, lane);
      }
    }
    wire.erase(0, done);
    collect(side);
    apply_core_state(side);
  }

  /// This end stops using the lane; the other may not know.
  void close(int side, std::uint16_t lane) {
    if (!is_open(side, lane)) return;
    end_state& e = ends[side];
    e.readers[lane].reset();
    e.in_hand[lane].reset();
    e.inbox[lane].clear();
    if (drains_late) e.closing.push_back({lane, core(side).lane_epoch(lane), e.posted[lane]});
    e.posted[lane].clear();
    e.completions[lane].clear();
    core(side).lane_lost(lane, reports_quiesced_early || !drains_late);
    collect(side);
    if (omits_fences) forge_fence(side, lane);
  }
  /// A new connection, in a new epoch, replaces the old one at both ends.
  void heal(std::uint16_t lane) {
    ++epoch;
    for (const int side : {0, 1}) {
      close(side, lane);
      end_state& e = ends[side];
      e.passes[lane] = true;
      e.inbox[lane].clear();
      e.readers[lane] = std::make_unique<rails::lane_reader>(*e.core, lane);
      e.core->lane_up(lane, epoch, now, is_standby[lane]);
    }
  }

  void heal_closed() {
    for (std::uint16_t i = 0; i < lanes(); ++i) {
      if (!is_open(0, i) || !is_open(1, i)) heal(i);
    }
  }

  void pass_time(std::chrono::milliseconds by) {
    now += by;
    for (const int side : {0, 1}) {
      core(side).tick(now);
      apply_core_state(side);
    }
  }
  /// Moves everything, without faults, until each end knows that the other has received all.
  void deliver_all() {
    for (int quiet = 0, rounds = 0; quiet < 2 && good; ++rounds) {
      for (const int side : {0, 1}) {
        for (std::uint16_t i = 0; i < lanes(); ++i) {
          put(side, i);
          while (write(side, i)) {
          }
          while (!ends[side].posted[i].empty()) move(side, i);
          while (!ends[side].completions[i].empty()) deliver_completion(side, i);
          while (!ends[side].closing.empty()) drain(side, true);
          deliver(1 - side, i, ~std::size_t{0});
        }
      }
      quiet = core(0).is_flushed() && core(1).is_flushed() ? quiet + 1 : 0;
      if (quiet == 0 && rounds > 2) {
        pass_time(std::chrono::milliseconds(10));
        heal_closed();
      }
      if (rounds == 1000) {
        ADD_FAILURE() << "it never completes";
        good = false;
      }
    }
  }

  /// Keeps what a completed receive got, and overwrites its buffer so that a late write is
  /// detected.
  static void over(operation& op) {
    auto& done = static_cast<scripted&>(op);
    if (op.what != operation::kind::recv) return;
    if (!op.result) done.got = done.received();
    std::fill(done.bytes_of.begin(), done.bytes_of.end(), 'Z');
  }

  end_state ends[2];
  rails::core::time_point now{std::chrono::hours(1)};
  std::uint32_t epoch = 0;
  std::vector<bool> is_standby;  // of lanes that are healed from now on
  bool good = true;
  int broken = 0;  // lanes lost to corrupted bytes
  /// An injected bug: a closed lane is not fenced, and what had not arrived by then is sent again
  /// at once, although the other end still reads there.
  bool omits_fences = false;
  /// NICs write in place, and continue for a while after their lane was closed.
  bool drains_late = false;
  /// An injected bug: a closed lane counts as quiesced although its NIC continues.
  bool reports_quiesced_early = false;

 private:
  std::uint32_t epoch_of(std::uint16_t lane) { return core(0).lane_epoch(lane); }
  /// Whether the other end's NIC still accepts writes of this epoch.
  bool takes(int side, std::uint16_t lane, std::uint32_t of) const {
    const end_state& e = ends[side];
    if (is_open(side, lane) && e.core->lane_epoch(lane) == of) return true;
    return std::any_of(e.closing.begin(), e.closing.end(),
                       [&](const auto& one) { return one.lane == lane && one.epoch == of; });
  }
  void touch(int side, std::uint16_t lane, const nic_request& request) {
    if (!request.placed || !takes(1 - side, lane, request.epoch)) return;
    auto* const to = reinterpret_cast<std::byte*>(request.placed->to);
    const std::size_t bytes = request.payload.bytes;
    const bool reads =
        ends[side].nic.allows(request.placed->local_key, request.payload.data, bytes);
    const bool writes = ends[1 - side].nic.allows(request.placed->remote_key, to, bytes);
    EXPECT_TRUE(reads) << "side " << side << " reads a view that was given back";
    EXPECT_TRUE(writes) << "side " << side << " writes a view that was given back";
    if (reads && writes) {
      std::memcpy(fake_nic::behind(to), fake_nic::behind(request.payload.data), bytes);
    }
    ++in_place;
  }

 public:
  int in_place = 0;  ///< chunks that NICs wrote

 private:
  static bool is_fence(const rails::lane_write& p) {
    std::string why;
    const auto head = std::span(p.head).first<rails::envelope_bytes>();
    return rails::decode(head, why)->kind == rails::envelope_kind::fenced;
  }
  void forge_fence(int side, std::uint16_t lane) {
    std::array<std::byte, rails::max_body_bytes> body;
    const auto& arrived = core(1 - side).received().arrived();
    rails::envelope e;
    e.kind = rails::envelope_kind::fenced;
    e.lane = lane;
    e.epoch = core(side).lane_epoch(lane);
    e.arrived = arrived.next();
    const std::size_t bytes = arrived.write(body);
    EXPECT_TRUE(core(side).take(lane, e, std::span(body).first(bytes), now));
  }
  void collect(int side) {
    while (operation* op = core(side).messages().pop_done()) over(*op);
  }
  void apply_core_state(int side) {
    for (std::uint16_t i = 0; i < lanes(); ++i) {
      if (core(side).must_close(i)) close(side, i);
    }
  }
};

}  // namespace tandem::test
