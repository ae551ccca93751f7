#include "transports/shm/mesh.hpp"

#include <fmt/format.h>

#include <tandem/channels.hpp>
#include <tandem/log.hpp>

#include "fabric/fabric_handle.hpp"
#include "fabric/host_identity.hpp"
#include "transports/shm/mapped_range.hpp"

namespace tandem::shm {
namespace {

/// A rank publishes its host identity, a blank and the name of its listen endpoint.
std::string listener_name_of(const std::string& published, const std::string& here, int peer) {
  if (!published.starts_with(here)) {
    throw error(
        errc::unreachable,
        fmt::format("rank {} is on another host, or in a container with its own network", peer),
        "shared memory connects ranks of one host only: choose --channel tcp or rails");
  }
  return published.substr(here.size());
}

}  // namespace

asio::awaitable<void> mesh::open() {
  reserve(1, 1);
  // Without shared memory, fail now rather than with the first peer.
  memory::create(ring_bytes_for(options().shm_ring_bytes, size()));
  here_ = transport::host_identity() + ' ';
  const std::string name = random_name();
  accept_at<control_socket>(listen(get_executor(), name), options(),
                            [weak = weak_from_this()](control_socket socket, const sealed::keys&,
                                                      const transport::hello& local_hello,
                                                      const transport::hello& remote_hello) {
                              const auto self = std::static_pointer_cast<mesh>(weak.lock());
                              if (!self) return;
                              self->take(std::move(socket), 1, remote_hello.from, local_hello,
                                         remote_hello);
                            });
  watch_store();
  co_await publish_address(here_ + name);
}

void mesh::take(control_socket socket, int side, int peer, const transport::hello& local_hello,
                const transport::hello& remote_hello) {
  const std::shared_ptr<link> over =
      make_link(std::move(socket), side, local_hello, remote_hello, options());
  over->on_lost(lost_handler());
  over->on_doorbell([weak = weak_from_this()] {
    if (const auto self = weak.lock()) std::static_pointer_cast<mesh>(self)->on_doorbell();
  });
  if (find(peer) == nullptr) {
    links_.resize(static_cast<std::size_t>(size()));
    links_[static_cast<std::size_t>(peer)] = over;
  }
  install(peer, std::make_unique<link_channel>(over));
}

std::shared_ptr<board> mesh::share_board(std::span<const int> members, std::string& location) {
  try {
    const auto self = std::static_pointer_cast<mesh>(shared_from_this());
    std::shared_ptr<shared_board> made = shared_board::make(self, members, location, options());
    std::erase_if(boards_, [](const auto& each) { return each.expired(); });
    boards_.push_back(made);
    return made;
  } catch (const error& why) {
    log(log_level::info, "shm",
        fmt::format("rank {} has no board for short collectives: {}", rank(), why.what()));
    return nullptr;
  }
}

memory_location mesh::locate_memory(const mutable_view& memory) {
  return memory.kind == memory_kind::host ? location_of(memory) : memory_location{};
}

std::unique_ptr<const mapped_memory> mesh::map_memory(int peer, const memory_location& at,
                                                      std::size_t bytes) {
  if (at == memory_location{} || find(peer) == nullptr) return nullptr;
  try {
    return std::make_unique<const mapped_range>(at, bytes);
  } catch (const error& why) {
    log(log_level::info, "shm",
        fmt::format("rank {} accesses memory of rank {} by messages: {}", rank(), peer,
                    why.what()));
    return nullptr;
  }
}

void mesh::ring_doorbell(int peer) noexcept {
  if (links_.empty()) return;
  if (const auto to = links_[static_cast<std::size_t>(peer)].lock()) to->ring_doorbell();
}

void mesh::on_doorbell() {
  for (std::size_t i = 0; i < boards_.size(); ++i) {
    if (const auto each = boards_[i].lock()) each->wake();
  }
}

void mesh::ended() noexcept {
  const error reason =
      failure().value_or(error(errc::channel_closed, "this rank has left the job"));
  for (const auto& each : boards_) {
    if (const auto there = each.lock()) there->fail(reason);
  }
}

asio::awaitable<void> mesh::connect_peer(int peer) {
  const std::string published = co_await find_address(peer);
  const std::string name = listener_name_of(published, here_, peer);
  while (wants(peer)) {
    const transport::hello local_hello = make_hello(peer);
    transport::hello answer;
    control_socket socket =
        co_await connect_and_handshake(name, local_hello, key(), options(), answer);
    if (answer.answer == transport::handshake_status::accepted) {
      take(std::move(socket), 0, peer, local_hello, answer);
      co_return;
    }
    co_await wait_for_crossed();
  }
}

asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options) {
  return transport::open_fabric<mesh>(std::move(meeting), std::move(options));
}

}  // namespace tandem::shm
