#include "devices/mesh.hpp"

#include <fmt/format.h>

#include <tandem/accelerator.hpp>
#include <tandem/channels.hpp>
#include <utility>

#include "fabric/fabric_handle.hpp"

namespace tandem::devices {
namespace {

std::shared_ptr<nic_memory> nics_of(fabric& over, const settings& options) {
  if (!options.gpudirect) return nullptr;
  return std::make_shared<nic_memory>([&over](mutable_view memory, const dmabuf& exported) {
    return over.register_memory(memory, exported);
  });
}

}  // namespace

mesh::mesh(std::unique_ptr<fabric> over, settings options)
    : over_(std::move(over)),
      options_(std::move(options)),
      copiers_(std::make_shared<copiers>(over_->get_executor())),
      nics_(nics_of(*over_, options_)),
      pairs_(static_cast<std::size_t>(over_->size())) {}

mesh::~mesh() {
  if (nics_) nics_->close();
  for (pair& each : pairs_) {
    if (each.over) each.over->forget_inner();
  }
}

channel& mesh::make(int peer, channel& inner) {
  pair& made = pairs_[static_cast<std::size_t>(peer)];
  if (made.handle) return *made.handle;
  made.kind = fmt::format("forwarding over {}", over_->kind_to(peer));
  made.over =
      std::make_shared<link>(inner, copiers_, options_, protocol::identity{rank(), peer, made.kind},
                             process_location::here(), nics_);
  made.handle = std::make_unique<link_channel>(made.over);
  made.over->run();
  return *made.handle;
}

asio::awaitable<std::reference_wrapper<channel>> mesh::to(int peer) {
  const auto self = shared_from_this();
  channel& inner = co_await over_->to(peer);
  co_return make(peer, inner);
}

channel* mesh::find(int peer) noexcept {
  if (channel* const made = pairs_[static_cast<std::size_t>(peer)].handle.get()) return made;
  channel* const inner = over_->find(peer);
  return inner != nullptr ? &make(peer, *inner) : nullptr;
}

std::string_view mesh::kind_to(int peer) const noexcept {
  const pair& made = pairs_[static_cast<std::size_t>(peer)];
  if (!made.handle) return kind();
  return made.over->access() == peer_access::none ? std::string_view(made.kind) : "peer copies";
}

std::string mesh::path_to(int peer, memory_kind here, memory_kind there) const {
  pair_capabilities both;
  if (const pair& made = pairs_[static_cast<std::size_t>(peer)]; made.handle) {
    both.peer_copies = made.over->access() != peer_access::none;
    both.shared_staging = made.over->shares_staging();
    both.gpudirect = made.over->uses_nics();
  }
  return expected_transport(here, there, both, over_->kind_to(peer));
}

std::string expected_transport(memory_kind here, memory_kind there, pair_capabilities both,
                               std::string_view over) {
  if (here == memory_kind::host && there == memory_kind::host) return std::string(over);
  if (here == there && both.peer_copies) return "peer copies";
  const bool are_devices = here != memory_kind::host && there != memory_kind::host;
  if (are_devices && both.shared_staging) return "shared staging";
  if (both.gpudirect) return fmt::format("device-direct over {}", over);
  return fmt::format("forwarding over {}", over);
}

bool mesh::carries(memory_kind kind) const {
  return kind == memory_kind::host || !find_accelerators(kind).found.empty();
}

void mesh::fail(const error& reason, bool /*notify_others*/) noexcept {
  is_over_ = has_failed_ = true;
  over_->fail(reason);
}

void mesh::close() noexcept {
  is_over_ = true;
  over_->close();
  // After a failure the inner channels report it.
  if (has_failed_) return;
  for (const pair& each : pairs_) {
    if (each.handle) each.handle->close();
  }
}

std::unique_ptr<fabric> make_fabric(std::unique_ptr<fabric> over, settings options) {
  return std::make_unique<transport::fabric_handle<mesh>>(
      std::make_shared<mesh>(std::move(over), std::move(options)));
}

}  // namespace tandem::devices
