#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric_base.hpp"
#include "transports/shm/connect.hpp"
#include "transports/shm/shared_board.hpp"

namespace tandem::shm {

/// A rank's channels through shared memory to the other ranks of its host, connected on demand.
class mesh final : public transport::fabric_base {
 public:
  using fabric_base::fabric_base;
  std::string_view kind() const noexcept override { return "shm"; }
  asio::awaitable<void> open() override;
  std::shared_ptr<board> share_board(std::span<const int> members, std::string& location) override;
  memory_location locate_memory(const mutable_view& memory) override;
  std::unique_ptr<const mapped_memory> map_memory(int peer, const memory_location& at,
                                                  std::size_t bytes) override;
  /// Wakes the loop of a connected peer.
  void ring_doorbell(int peer) noexcept;

 private:
  void ended() noexcept override;
  void on_doorbell();
  asio::awaitable<void> connect_peer(int peer) override;
  void take(control_socket socket, int side, int peer, const transport::hello& local_hello,
            const transport::hello& remote_hello);

  std::string here_;  // host identity and a blank, the prefix of what ranks publish
  std::vector<std::weak_ptr<link>> links_;  // by peer; empty until the first
  std::vector<std::weak_ptr<shared_board>> boards_;
};

}  // namespace tandem::shm
