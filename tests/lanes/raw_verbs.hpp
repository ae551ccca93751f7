#pragma once

#include <functional>
#include <memory>

#include "doubles/rdma/rig.hpp"
#include "support/verbs_rig.hpp"

namespace tandem::test {

/// The other end of a lane, driven by the test: it completes the setup correctly, and then sends
/// and writes what the test wants.
struct raw_verbs {
  /// @param corrupt  changes its queue pair info before it is sent
  static awaitable<std::shared_ptr<raw_verbs>> establish(
      asio::ip::tcp::socket over, const std::string& device,
      std::function<void(verbs::qp_info&)> corrupt = {});

  explicit raw_verbs(const std::string& device);
  verbs::qp_info qp_info() const;
  void connect(const verbs::qp_info& to);

  /// Writes a credit update at the start of the memory of one of its queue pairs.
  static void write_update(rdma_end& in, const verbs::credit_update& update);
  /// SEND of the first `bytes` bytes of it.
  void send(rdma_end& by, std::size_t bytes);
  /// WRITE of `bytes` bytes, up to four times its memory.
  void write(std::size_t bytes, std::uint64_t to, std::uint32_t slot, std::uint32_t key);

  rdma_end data, control;
  verbs::qp_info remote;
  std::optional<asio::ip::tcp::socket> control_socket;
};

}  // namespace tandem::test
