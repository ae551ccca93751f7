#pragma once

#include <memory>
#include <string>

#include "shm/connect.hpp"
#include "tcp/fabric.hpp"

namespace tandem::shm {

/// A rank's channels through shared memory to all others of its host, made on demand.
class mesh final : public tcp::mesh {
 public:
  using tcp::mesh::mesh;
  std::string_view kind() const noexcept override { return "shm"; }
  asio::awaitable<void> open() override;

 private:
  asio::awaitable<void> dial_peer(int peer) override;
  void take(guest_socket guest, int side, int peer, const tcp::hello& mine,
            const tcp::hello& theirs);
};

}  // namespace tandem::shm
