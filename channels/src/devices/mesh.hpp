#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <vector>

#include "devices/link.hpp"

namespace tandem::devices {

/// A rank's channels to all others, each over a channel of another fabric, which also reports lost
/// ranks. A link is created on demand, over a connected inner channel; its operations wait until
/// the peer's link exists.
class mesh final : public std::enable_shared_from_this<mesh> {
 public:
  mesh(std::unique_ptr<fabric> over, settings options);
  ~mesh();

  asio::awaitable<std::reference_wrapper<channel>> to(int peer);
  channel* find(int peer) noexcept;
  std::string_view kind() const noexcept { return "devices"; }
  std::string_view kind_to(int peer) const noexcept;
  std::string path_to(int peer, memory_kind here, memory_kind there) const;
  /// Whether views of this kind can be sent to and received from every peer.
  bool carries(memory_kind kind) const;
  region register_memory(mutable_view memory, dmabuf exported) {
    return over_->register_memory(memory, exported);
  }
  memory_location locate_memory(const mutable_view& memory) { return over_->locate_memory(memory); }
  std::unique_ptr<const mapped_memory> map_memory(int peer, const memory_location& at,
                                                  std::size_t bytes) {
    return over_->map_memory(peer, at, bytes);
  }
  void fail(const error& reason, bool notify_others) noexcept;
  void close() noexcept;
  bool is_over() const noexcept { return is_over_; }

  int rank() const noexcept { return over_->rank(); }
  int size() const noexcept { return over_->size(); }
  asio::any_io_executor get_executor() const noexcept { return over_->get_executor(); }

 private:
  struct pair {
    std::string kind;
    std::shared_ptr<link> over;
    std::unique_ptr<link_channel> handle;
  };
  channel& make(int peer, channel& inner);

  const std::unique_ptr<fabric> over_;
  const settings options_;
  const std::shared_ptr<copiers> copiers_;
  const std::shared_ptr<nic_memory> nics_;
  std::vector<pair> pairs_;  // by peer
  bool is_over_ = false;
  bool has_failed_ = false;
};

}  // namespace tandem::devices
