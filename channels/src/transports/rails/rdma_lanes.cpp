#include "transports/rails/rdma_lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tandem/async.hpp>
#include <tandem/error.hpp>
#include <tandem/log.hpp>

#include "transports/rails/verbs/lane_connection.hpp"
#include "transports/rails/verbs/ports.hpp"
#include "transports/rails/verbs/regions.hpp"

namespace tandem::rails {
namespace {

/// Copies into and out of slots overlap with the transfer where a chunk takes several slots.
constexpr std::uint32_t slot_bytes = 256 * 1024;
constexpr std::uint32_t slots = 16;
/// Smaller slots would hold little more than a record.
constexpr std::uint32_t min_slot_bytes = 8 * 1024;
constexpr std::chrono::seconds set_up_limit{5};

}  // namespace

verbs::queue_depths queue_depths_for(const settings& options) noexcept {
  verbs::queue_depths found;
  found.chunks = slots;
  const std::size_t max_bytes = slot_bytes / 2;  // two larger chunks do not fit one slot
  found.chunk_bytes = std::max<std::uint32_t>(
      2 * static_cast<std::uint32_t>(std::min(options.chunk_bytes, max_bytes)), min_slot_bytes);
  return found;
}

rdma_lanes::rdma_lanes() : regions_(std::make_shared<verbs::regions>()) {}
rdma_lanes::~rdma_lanes() {
  close();
}

void rdma_lanes::find(const std::vector<nic>& nics, const std::vector<rail_end>& rails,
                      const settings& options) {
  if (options.rdma == rdma_use::off) return;
  if (options.encrypt) {
    if (options.rdma == rdma_use::on) {
      throw error(errc::bad_option, "rdma on and encrypt: NICs do not encrypt RDMA traffic",
                  "drop one of the two options");
    }
    log(log_level::info, "rails", "no RDMA: encrypt is on, and NICs do not encrypt its traffic");
    return;
  }
  always_checks_ = options.checksum > 1;
  queue_depths_ = queue_depths_for(options);
  const verbs::local_ports here = verbs::find_local_ports(options.rdma);
  if (options.rdma == rdma_use::on && !here.why_none.empty()) {
    throw error(errc::bad_option, "rdma on: " + here.why_none, "or use --rdma auto");
  }
  for (const std::string& problem : here.problems) log(log_level::warning, "rails", problem);
  std::string why;
  driver_ = detail::find_ibverbs(why);
  const std::vector<verbs::rdma_choice> choices = verbs::choose_rdma(here.all, nics, rails);
  verbs::require_rdma(options.rdma, nics, rails, choices);
  rails_.clear();
  for (std::size_t i = 0; i < rails.size(); ++i) {
    rails_.push_back({nics[rails[i].nic], rails[i].addresses, choices[i].end});
  }
}

bool rdma_lanes::has(std::size_t rail) const noexcept {
  return rail < rails_.size() && rails_[rail].end.has_value();
}

const std::string& rdma_lanes::text(std::size_t rail) const {
  return rails_[rail].end->why;
}

/// Selects the port and GID of a rail again, on its own device first. A device that was removed may
/// come back under another name, and its interface under another index.
void rdma_lanes::reselect(local_end& which) const {
  const std::vector<verbs::port> own = verbs::find_ports(*driver_, nullptr, which.end->device);
  verbs::rdma_choice found = verbs::choose_rdma(own, which.on, which.addresses);
  if (!found.end) {
    for (nic& one : find_nics()) {
      if (one.name == which.on.name) which.on = std::move(one);
    }
    std::vector<std::string> problems;
    const std::vector<verbs::port> all = verbs::find_ports(*driver_, &problems);
    found = verbs::choose_rdma(all, which.on, which.addresses);
    if (!problems.empty()) found.why += "; " + problems.front();
  }
  if (!found.end) {
    throw error(errc::unreachable, "RDMA is not available now: " + found.why,
                "tandem rails lists devices");
  }
  if (found.end->why != which.end->why) {
    log(log_level::info, "rails",
        fmt::format("{} now uses {} instead of {}", which.on.name, found.end->why, which.end->why));
  }
  which.end = std::move(found.end);
}

std::shared_ptr<verbs::adapter> rdma_lanes::open(const verbs::rdma_end& end,
                                                 const asio::any_io_executor& executor) {
  std::weak_ptr<verbs::adapter>& kept =
      adapters_[fmt::format("{}/{}/{}", end.device, end.port, end.gid_index)];
  std::shared_ptr<verbs::adapter> found = kept.lock();
  if (found && found->is_usable() && found->gid() == end.gid) return found;
  found = verbs::adapter::open(executor, *driver_, {end.device, end.port, end.gid_index});
  if (found->gid() != end.gid) {
    throw error(errc::unreachable,
                fmt::format("{}: its GID table is being changed", found->text()));
  }
  regions_->attach(found);
  kept = found;
  return found;
}

std::unique_ptr<region::record> rdma_lanes::register_memory(mutable_view memory,
                                                            const dmabuf& exported) {
  const bool has_any = std::any_of(rails_.begin(), rails_.end(),
                                   [](const local_end& one) { return one.end.has_value(); });
  return has_any && memory.bytes > 0 ? regions_->add(memory, exported) : nullptr;
}

asio::awaitable<std::unique_ptr<lane_connection>> rdma_lanes::set_up(std::size_t rail,
                                                                     sealed::connection over) {
  if (closed_ || !has(rail)) throw error(errc::channel_closed, "this rank has left the job");
  reselect(rails_[rail]);
  std::shared_ptr<verbs::adapter> on = open(*rails_[rail].end, over.socket.get_executor());
  std::unique_ptr<lane_connection> made;
  co_await with_deadline(
      set_up_limit, establish(std::move(over), std::move(on), queue_depths_, always_checks_, made),
      "setting up RDMA on " + text(rail),
      "do packets of RoCE (UDP port 4791) pass between both ends?");
  co_return made;
}

asio::awaitable<void> rdma_lanes::establish(sealed::connection over,
                                            std::shared_ptr<verbs::adapter> on,
                                            verbs::queue_depths has, bool always_checks,
                                            std::unique_ptr<lane_connection>& made) {
  std::unique_ptr<verbs::lane_connection> by =
      co_await verbs::establish(std::move(over), std::move(on), has);
  if (always_checks) by->require_checksums();
  made = std::move(by);
}

void rdma_lanes::close() noexcept {
  closed_ = true;
  for (const auto& [name, kept] : adapters_) {
    if (const std::shared_ptr<verbs::adapter> one = kept.lock()) one->close();
  }
}

}  // namespace tandem::rails
