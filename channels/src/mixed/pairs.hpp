#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "mixed/place.hpp"
#include "tcp/fabric.hpp"

namespace tandem::mixed {

/// A rank's channels to all others, each by one of two meshes: `near` within a host, `far` between
/// hosts.
///
/// The two are independent: what one of them reports reaches the other through the store that they
/// share.
class pairs final : public std::enable_shared_from_this<pairs> {
 public:
  /// @param near, far  not yet open; each on its own part of `meeting`.
  pairs(std::shared_ptr<store> meeting, settings options, std::shared_ptr<tcp::mesh> near,
        std::shared_ptr<tcp::mesh> far);

  /// Opens both, of which `near` may fail, and publishes this rank's location.
  asio::awaitable<void> open();
  asio::awaitable<std::reference_wrapper<channel>> to(int peer);
  channel* find(int peer) noexcept;
  std::string_view kind() const noexcept { return "mixed"; }
  std::string_view kind_to(int peer) const noexcept;
  region register_memory(mutable_view memory, const dmabuf& exported) {
    return far_->register_memory(memory, exported);
  }
  std::shared_ptr<board> share_board(std::span<const int> members, std::string& board_name);
  void fail(const error& reason, bool tell_others) noexcept;
  void close() noexcept;
  bool is_over() const noexcept { return near_->is_over() && far_->is_over(); }

  int rank() const noexcept { return far_->rank(); }
  int size() const noexcept { return far_->size(); }
  asio::any_io_executor get_executor() const noexcept { return far_->get_executor(); }

 private:
  asio::awaitable<bool> open_near();
  asio::awaitable<std::optional<error>> choose(int peer);
  place read_place(int peer, std::string_view published) const;

  const std::shared_ptr<store> store_;
  const settings options_;
  const std::shared_ptr<tcp::mesh> near_;
  const std::shared_ptr<tcp::mesh> far_;
  place mine_;
  std::vector<tcp::mesh*> chosen_;  // by peer; null: not yet
  std::vector<channel*> found_;     // by peer; null: not yet
};

}  // namespace tandem::mixed
