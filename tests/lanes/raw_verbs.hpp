#pragma once

#include <functional>
#include <memory>

#include "support/verbs_rig.hpp"
#include "unit/rdma_double_rig.hpp"

namespace tandem::test {

/// The other end of a lane, driven by hand: it meets as a correct peer does, and then says and
/// writes whatever a test wants.
struct raw_verbs {
  /// @param spoil  changes its card before it is sent
  static awaitable<std::shared_ptr<raw_verbs>> establish(
      asio::ip::tcp::socket over, const std::string& device,
      std::function<void(verbs::qp_info&)> spoil = {});

  explicit raw_verbs(const std::string& device);
  verbs::qp_info qp_info() const;
  void connect(const verbs::qp_info& to);

  /// A word at the beginning of the memory of one of its pairs.
  static void write_update(rdma_end& in, const verbs::credit_update& said);
  /// SEND of so many bytes of it.
  void send(rdma_end& by, std::size_t bytes);
  /// WRITE of so many bytes, up to four times its memory.
  void write(std::size_t bytes, std::uint64_t to, std::uint32_t slot, std::uint32_t key);

  rdma_end data, control;
  verbs::qp_info theirs;
  std::optional<asio::ip::tcp::socket> lifeline;
};

}  // namespace tandem::test
