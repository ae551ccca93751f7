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
  static awaitable<std::shared_ptr<raw_verbs>> meet(asio::ip::tcp::socket over,
                                                    const std::string& device,
                                                    std::function<void(verbs::card&)> spoil = {});

  explicit raw_verbs(const std::string& device);
  verbs::card card() const;
  void connect(const verbs::card& to);

  /// A word at the beginning of the memory of one of its pairs.
  static void write_word(rdma_end& in, const verbs::word& said);
  /// SEND of so many bytes of it.
  void send(rdma_end& by, std::size_t bytes);
  /// WRITE of so many bytes, up to four times its memory.
  void write(std::size_t bytes, std::uint64_t to, std::uint32_t slot, std::uint32_t key);

  rdma_end data, control;
  verbs::card theirs;
  std::optional<asio::ip::tcp::socket> lifeline;
};

}  // namespace tandem::test
