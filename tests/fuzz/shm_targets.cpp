#include "fuzz/shm_targets.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <tandem/channel.hpp>

#include "fuzz/targets.hpp"
#include "protocol/session.hpp"
#include "transports/shm/frames_in.hpp"
#include "transports/shm/frames_out.hpp"

namespace tandem::fuzz {
namespace {

/// Writes the input into a ring and marks every record that a reader would reach as complete.
void fill(shm::ring_memory ring, bytes input) {
  input = input.first(std::min(input.size(), ring.bytes / 2));
  std::memcpy(ring.data, input.data(), input.size());
  for (std::size_t at = 0; at + shm::record_bytes <= input.size();) {
    auto& one = *reinterpret_cast<shm::record*>(ring.data + at);
    if (one.ready.load() != 0) one.ready.store(shm::record::is_ready);
    const bool is_behind = one.how == 1 || one.how == 2;
    const std::size_t behind = is_behind ? std::min<std::size_t>(one.here_bytes, ring.bytes) : 0;
    at += shm::record_bytes +
          (behind + shm::record_bytes - 1) / shm::record_bytes * shm::record_bytes;
  }
}

}  // namespace

/// The first 16 bytes are the peer's progress counters.
void shared_memory(bytes input) {
  if (input.size() < 16) return;
  const shm::memory shared = shm::memory::create(shm::min_ring_bytes);
  std::array<std::array<char, 600>, 4> memory{};
  std::array<operation, 4> operations;
  protocol::session session({256, 1024, 2048, 64}, {0, 1, "fuzz"}, std::chrono::minutes(1));
  for (std::size_t i = 0; i < operations.size(); ++i) {
    operations[i].what = i % 2 == 0 ? operation::kind::recv : operation::kind::send;
    operations[i].flow = static_cast<flow_id>(i / 2);
    operations[i].view = mutable_view(memory[i].data(), memory[i].size());
    session.start(operations[i]);
  }
  shm::frames_out out(session, shared, 1, single_copy::on);
  shm::frames_in in(session, shared, 1, 0, single_copy::off);
  out.write_all();
  shm::control_block& peer_control = shared.control(0);
  peer_control.consumed = protocol::take<std::uint64_t>(input.data());
  peer_control.read = protocol::take<std::uint64_t>(input.data() + 8);
  peer_control.reads_references = 1;
  fill(shared.ring(0), input.subspan(16));
  using outcome = shm::frames_in::outcome;
  for (int i = 0; i < 2000 && in.read_one() == outcome::more && !out.is_broken(); ++i) {
    out.take_acknowledgements();
    out.write_all();
  }
  in.drop();
  out.drop();
  session.fail(error(errc::channel_closed, "the end"));
  std::size_t ended = 0;
  while (operation* const op = session.pop_any()) {
    require(op->bytes <= 600);
    ++ended;
  }
  require(ended == operations.size());
}

}  // namespace tandem::fuzz
