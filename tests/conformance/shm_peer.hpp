#pragma once

#include <memory>
#include <tandem/channels.hpp>

#include "support/channel_case.hpp"
#include "transports/shm/connect.hpp"

namespace tandem::test {

/// Two connected ends in this process.
awaitable<channel_pair> connect_shm(settings options);

/// A channel whose peer has completed the handshake and then writes what a test wants into the
/// shared memory.
struct hostile_memory {
  std::unique_ptr<channel> end;
  shm::control_socket peer;

  shm::control_block& control() { return peer.shared.control(0); }
  shm::record& record_at(std::size_t position) {
    return *reinterpret_cast<shm::record*>(peer.shared.ring(0).data + position);
  }
  /// Marks a record as complete.
  void publish(std::size_t position) {
    record_at(position).ready.store(shm::record::is_ready, std::memory_order_release);
  }
  /// Wakes the channel's loop, whatever its wake mask is.
  void ring_doorbell();
};
awaitable<hostile_memory> connect_hostile_memory(settings options);

/// Runs `live` in a child process, which exits when it returns.
pid_t start_shm_peer(awaitable<void> (*live)(std::string name, settings options), std::string name,
                     settings options);

}  // namespace tandem::test
