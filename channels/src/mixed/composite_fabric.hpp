#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "fabric/fabric_base.hpp"
#include "mixed/rank_location.hpp"

namespace tandem::mixed {

/// A rank's channels to all others, each by one of two meshes: `intra_host` within a host,
/// `inter_host` between hosts.
///
/// The two are independent: what one of them reports reaches the other through the store that they
/// share.
class composite_fabric final : public std::enable_shared_from_this<composite_fabric> {
 public:
  /// @param near, far  not yet open; each on its own part of `meeting`.
  composite_fabric(std::shared_ptr<store> meeting, settings options,
                   std::shared_ptr<transport::fabric_base> intra_host,
                   std::shared_ptr<transport::fabric_base> inter_host);

  /// Opens both, of which `intra_host` may fail, and publishes this rank's location.
  asio::awaitable<void> open();
  asio::awaitable<std::reference_wrapper<channel>> to(int peer);
  channel* find(int peer) noexcept;
  std::string_view kind() const noexcept { return "mixed"; }
  std::string_view kind_to(int peer) const noexcept;
  region register_memory(mutable_view memory, const dmabuf& exported) {
    return inter_host_->register_memory(memory, exported);
  }
  memory_location locate_memory(const mutable_view& memory) {
    return intra_host_->locate_memory(memory);
  }
  std::unique_ptr<const mapped_memory> map_memory(int peer, const memory_location& at,
                                                  std::size_t bytes) {
    if (intra_host_->find(peer) == nullptr) return nullptr;
    return intra_host_->map_memory(peer, at, bytes);
  }
  std::shared_ptr<board> share_board(std::span<const int> members, std::string& board_name);
  void fail(const error& reason, bool notify_others) noexcept;
  void close() noexcept;
  bool is_over() const noexcept { return intra_host_->is_over() && inter_host_->is_over(); }

  int rank() const noexcept { return inter_host_->rank(); }
  int size() const noexcept { return inter_host_->size(); }
  asio::any_io_executor get_executor() const noexcept { return inter_host_->get_executor(); }

 private:
  asio::awaitable<bool> open_intra_host();
  asio::awaitable<std::optional<error>> choose(int peer);
  rank_location read_location(int peer, std::string_view published) const;

  const std::shared_ptr<store> store_;
  const settings options_;
  const std::shared_ptr<transport::fabric_base> intra_host_;
  const std::shared_ptr<transport::fabric_base> inter_host_;
  rank_location local_;
  std::vector<transport::fabric_base*> chosen_;  // by peer; null: not yet
  std::vector<channel*> found_;                  // by peer; null: not yet
};

}  // namespace tandem::mixed
