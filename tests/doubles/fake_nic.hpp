#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/rails/core.hpp"

namespace tandem::test {

/// The registrations of one end with a simulated NIC: each key is valid until it is deregistered,
/// and none is reused. Device memory is host memory at addresses that no process uses.
class fake_nic final : public rails::memory_registrar, public protocol::view_writer {
 public:
  /// The same bytes as a device view.
  static mutable_view on_device(const mutable_view& here) {
    auto* const there =
        reinterpret_cast<void*>(address_of(here.data) + address_offset);  // NOLINT: a number
    return {there, here.bytes, memory_kind::cuda, 0};
  }
  /// The host address at which a NIC or an engine accesses them.
  static std::byte* behind(const void* data) {
    const std::uintptr_t at = address_of(data);
    return reinterpret_cast<std::byte*>(at >= address_offset ? at - address_offset
                                                             : at);  // NOLINT: as above
  }

  std::optional<std::uint32_t> register_for_peer(std::uint16_t lane, operation& op,
                                                 std::uint64_t bytes) override {
    return add(lane, op, bytes);
  }
  std::optional<std::uint32_t> register_for_read(std::uint16_t lane, operation& op,
                                                 std::size_t) override {
    return add(lane, op, op.view.bytes);
  }
  void deregister(operation& op) noexcept override {
    std::erase_if(keys_, [&op](const auto& one) { return one.second.op == &op; });
  }

  bool fetch(const const_view& from, std::byte* to) noexcept override {
    std::memcpy(to, behind(from.data), from.bytes);
    return true;
  }
  void store(const std::byte* from, const mutable_view& to) override {
    std::memcpy(behind(to.data), from, to.bytes);
  }
  void fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) override {
    store(from.get(), op.view.part(0, bytes));
  }

  /// Whether this key currently allows access to all of these bytes.
  bool allows(std::uint32_t key, const void* at, std::size_t bytes) const {
    const auto found = keys_.find(key);
    if (found == keys_.end()) return false;
    const auto* const first = static_cast<const std::byte*>(found->second.op->view.data);
    const auto* const from = static_cast<const std::byte*>(at);
    return from >= first && from + bytes <= first + found->second.bytes;
  }
  std::size_t keys() const { return keys_.size(); }
  bool refuses = false;
  std::optional<std::uint16_t> lane_without;  ///< has no NIC

 private:
  /// No process has addresses this high.
  static constexpr std::uintptr_t address_offset = std::uintptr_t{1} << 47;
  static std::uintptr_t address_of(const void* data) {
    return reinterpret_cast<std::uintptr_t>(data);
  }
  struct registration {
    operation* op;
    std::uint64_t bytes;
  };
  std::optional<std::uint32_t> add(std::uint16_t lane, operation& op, std::uint64_t bytes) {
    if (refuses || lane == lane_without) return {};
    op.registered = true;
    keys_[++last_] = {&op, bytes};
    return last_;
  }
  std::map<std::uint32_t, registration> keys_;
  std::uint32_t last_ = 0;
};

/// A posted work request of one lane's NIC, not executed yet: bytes for the lane's stream, or a
/// write into the peer's memory, in order.
struct nic_request {
  std::string head;
  std::optional<rails::lane_write::remote_write> placed;
  const_view payload;
  std::uint32_t epoch = 0;
};

}  // namespace tandem::test
