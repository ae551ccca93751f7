#pragma once

#include <boost/asio/this_coro.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/loop_owner.hpp>
#include <tandem/error.hpp>
#include <tandem/fabric.hpp>
#include <tandem/store.hpp>
#include <utility>

namespace tandem::transport {

/// The error that other ranks get when a rank destroys its fabric without `close`.
error left_without_close(int rank);

/// The error of a rank whose fabric could not be opened, here and on the other ranks.
error open_failure(int rank, std::exception_ptr failure);

/// The user's handle of a mesh of any kind; destroying it without `close` counts as a failure of
/// this rank.
template <class Mesh>
class fabric_handle final : public fabric {
 public:
  explicit fabric_handle(std::shared_ptr<Mesh> over)
      : owner_(over->get_executor()), mesh_(std::move(over)) {}
  ~fabric_handle() override {
    if (!origin_.is_here()) return;
    // Others may be waiting for this rank: they must get an error.
    if (!mesh_->is_over()) mesh_->fail(left_without_close(mesh_->rank()), true);
    mesh_->close();
  }

  int rank() const noexcept override { return mesh_->rank(); }
  int size() const noexcept override { return mesh_->size(); }
  asio::any_io_executor get_executor() const noexcept override { return mesh_->get_executor(); }
  std::string_view kind() const noexcept override { return mesh_->kind(); }
  std::string_view kind_to(int peer) const noexcept override { return mesh_->kind_to(peer); }
  std::string path_to(int peer, memory_kind here, memory_kind there) const override {
    if constexpr (requires { mesh_->path_to(peer, here, there); }) {
      return mesh_->path_to(peer, here, there);
    }
    return fabric::path_to(peer, here, there);
  }
  asio::awaitable<std::reference_wrapper<channel>> to(int peer) override {
    origin_.require_here("this fabric");
    owner_.require_here("a call on a fabric");
    return mesh_->to(peer);
  }
  channel* find(int peer) noexcept override {
    return peer >= 0 && peer < mesh_->size() ? mesh_->find(peer) : nullptr;
  }
  bool carries(memory_kind kind, int peer) noexcept override {
    if constexpr (requires { mesh_->carries(kind); }) return mesh_->carries(kind);
    return fabric::carries(kind, peer);
  }
  region register_memory(mutable_view memory, dmabuf exported) override {
    origin_.require_here("this fabric");
    return mesh_->register_memory(memory, exported);
  }
  memory_location locate_memory(const mutable_view& memory) override {
    if constexpr (requires { mesh_->locate_memory(memory); }) return mesh_->locate_memory(memory);
    return {};
  }
  std::unique_ptr<const mapped_memory> map_memory(int peer, const memory_location& at,
                                                  std::size_t bytes) override {
    origin_.require_here("this fabric");
    if constexpr (requires { mesh_->map_memory(peer, at, bytes); }) {
      return mesh_->map_memory(peer, at, bytes);
    }
    return nullptr;
  }
  std::shared_ptr<board> share_board(std::span<const int> members, std::string& place) override {
    origin_.require_here("this fabric");
    if constexpr (requires { mesh_->share_board(members, place); }) {
      return mesh_->share_board(members, place);
    }
    return nullptr;
  }
  void fail(const error& reason) noexcept override {
    if (origin_.is_here()) mesh_->fail(reason, true);
  }
  void close() noexcept override {
    if (origin_.is_here()) mesh_->close();
  }

 private:
  const detail::process_origin origin_;
  const detail::loop_owner owner_;
  std::shared_ptr<Mesh> mesh_;
};

/// Opens a mesh; an error is a failure of this rank and is reported to all ranks.
template <class Mesh>
asio::awaitable<std::unique_ptr<fabric>> open_fabric(std::shared_ptr<Mesh> made) {
  std::unique_ptr<fabric> handle = std::make_unique<fabric_handle<Mesh>>(made);
  std::optional<error> failure;
  try {
    co_await made->open();
  } catch (...) {
    failure = open_failure(made->rank(), std::current_exception());
  }
  if (failure) {
    made->fail(*failure, true);
    throw error(*failure);
  }
  co_return handle;
}

/// The same for a new mesh of this kind over the ranks of `meeting`.
template <class Mesh>
asio::awaitable<std::unique_ptr<fabric>> open_fabric(std::shared_ptr<store> meeting,
                                                     settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  detail::require_own_context(executor);
  std::shared_ptr<Mesh> made =
      std::make_shared<Mesh>(std::move(meeting), std::move(options), executor);
  std::unique_ptr<fabric> handle = co_await open_fabric(std::move(made));
  co_return handle;
}

}  // namespace tandem::transport
