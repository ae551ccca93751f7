#include "transports/rails/mesh.hpp"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <tandem/channels.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/log.hpp>

#include "fabric/fabric_handle.hpp"
#include "fabric/tcp_connect.hpp"
#include "link/channel_handle.hpp"
#include "transports/rails/nic/bind_nic.hpp"
#include "transports/rails/nic/selection.hpp"
#include "transports/rails/tcp_lane_connection.hpp"

namespace tandem::rails {
namespace {

/// Timeout of one attempt to connect a lane; the next lane is tried then.
constexpr std::chrono::milliseconds lane_limit{1000};

/// In a hello, `rail` holds the lane, the standby flag, and the number of lanes.
constexpr std::uint32_t standby_flag = 1U << 31;
std::uint32_t pack(std::size_t lane, std::size_t lanes) noexcept {
  return static_cast<std::uint32_t>(lanes << 16 | lane);
}
std::size_t lane_of(const transport::hello& h) noexcept {
  return h.rail & 0xffff;
}
std::size_t lanes_of(const transport::hello& h) noexcept {
  return (h.rail & ~standby_flag) >> 16;
}
bool is_standby(const transport::hello& h) noexcept {
  return (h.rail & standby_flag) != 0;
}

timeouts bounds_of(const settings& options) {
  return {options.rail_timeout, options.peer_timeout};
}

}  // namespace

asio::awaitable<void> mesh::open() {
  links_.resize(static_cast<std::size_t>(size()));
  peer_routes_.resize(static_cast<std::size_t>(size()));
  nics_ = find_nics();
  const bool loopback_only = key().empty() && !options().insecure;
  const selection chosen = choose(nics_, parse_rails(options().rails), loopback_only);
  require_rails(nics_, chosen);
  rdma_.find(nics_, chosen.rails, options());
  reserve_for(chosen.rails);
  monitor_ = std::make_shared<liveness::monitor>(rank(), size(), key());
  for (const rail_end& end : chosen.rails) open_rail(end);
  watch_store();
  watch_ = std::make_unique<carrier_watch>(get_executor(), [weak = weak_from_this()](int index) {
    const auto self = std::static_pointer_cast<mesh>(weak.lock());
    if (self) self->carrier_lost(index);
  });
  co_await publish_address(encode(local_rails_));
}

std::string mesh::name_over_rdma(std::size_t rail, const asio::ip::address& peer) const {
  return fmt::format("{} over {} - {}", local_rails_[rail].interface, rdma_.text(rail),
                     peer.to_string());
}

void mesh::ended() noexcept {
  watch_.reset();
  rdma_.close();
  monitor_.reset();
}

asio::awaitable<mesh::routes> mesh::find_routes(int peer) {
  const std::string line = co_await find_address(peer);
  const std::vector<published_rail> remote = decode(line);
  const pairing found = pair_rails(local_rails_, remote);
  routes all;
  add_routes(all, found, remote, true);
  const std::size_t streams = options().rail_streams;
  for (std::size_t i = 0; i < streams; ++i) add_routes(all, found, remote, false);
  if (all.empty()) {
    throw error(errc::unreachable,
                fmt::format("no rail of rank {} can reach a rail of rank {}", rank(), peer),
                "run tandem rails on each host: it shows which interfaces are chosen and why");
  }
  co_return all;
}

void mesh::add_routes(routes& all, const pairing& found, const std::vector<published_rail>& remote,
                      bool rdma) const {
  for (const rail_pair& pair : found.pairs) {
    if (all.size() == max_lanes) break;
    const listen_endpoint& from = local_rails_[pair.local].endpoints[pair.local_endpoint_index];
    const listen_endpoint& to = remote[pair.remote].endpoints[pair.remote_endpoint_index];
    const bool has_rdma = rdma_.has(pair.local) && to.rdma_port != 0;
    if (rdma && !has_rdma) continue;
    route& r = all.emplace_back();
    r.to = {to.where, rdma ? to.rdma_port : to.port};
    r.from = from.where;
    r.rail = pair.local;
    r.nic = rail_nics_[pair.local];
    r.peer_is_local = is_local_address(nics_, to.where);
    r.rdma = rdma;
    r.is_standby = !rdma && has_rdma && options().rdma != rdma_use::both;
    r.name = rdma ? name_over_rdma(pair.local, to.where)
                  : fmt::format("{} {} - {}", local_rails_[pair.local].interface,
                                from.where.to_string(), transport::to_text(r.to));
  }
}

asio::awaitable<std::unique_ptr<lane_connection>> mesh::connect_lane(
    int peer, const route& by, std::uint32_t rail, std::uint32_t epoch,
    std::chrono::milliseconds limit, transport::hello& answer, detail::connect_tries* tries) {
  transport::hello local = make_hello(peer);
  local.rail = by.is_standby ? rail | standby_flag : rail;
  local.epoch = epoch;
  settings lane_settings = by.rdma ? for_setting_up() : options();
  lane_settings.meet_timeout = limit;
  error_code failure;
  transport::connect_options extra;
  extra.failure = &failure;
  extra.tries = tries;
  extra.refusal_is_final = find(peer) != nullptr;
  extra.prepare = [this, &by](asio::ip::tcp::socket& fresh) {
    bind_nic(fresh, nics_[by.nic], by.from, by.peer_is_local);
  };
  std::vector<asio::ip::tcp::endpoint> where(1, by.to);
  const std::string& interface = nics_[by.nic].name;
  const auto before = tx_bytes_of(interface);
  std::optional<sealed::connection> made;
  try {
    made = co_await transport::connect_and_handshake(
        std::move(where), local, key(), std::move(lane_settings), answer, std::move(extra));
  } catch (const error& e) {
    if (failure == asio::error::connection_refused) throw error(failure, e.context());
    throw;
  }
  const bool leaves_elsewhere =
      !by.peer_is_local &&
      check_egress(before, tx_bytes_of(interface), transport::hello_bytes) == egress::elsewhere;
  if (leaves_elsewhere && !warned_of_egress_) {
    warned_of_egress_ = true;
    log(log_level::warning, "rails",
        fmt::format("{}: packets leave by another interface than {}, as the routing table says; "
                    "allow SO_BINDTODEVICE or add a routing rule for the source address",
                    by.name, interface));
  }
  const bool is_welcome = answer.answer == transport::handshake_status::accepted;
  if (!by.rdma || !is_welcome) {
    co_return std::make_unique<tcp_lane_connection>(std::move(*made), by.is_standby);
  }
  std::unique_ptr<lane_connection> over = co_await rdma_.set_up(by.rail, std::move(*made));
  co_return over;
}

error mesh::no_rail_to(int peer, const detail::connect_tries& tries) const {
  return error(
      errc::unreachable,
      fmt::format("rank {} is unreachable on all rails for {}: {}", peer,
                  detail::to_text(options().meet_timeout), tries.text()),
      tries.advice(fmt::format("rank {}", rank()), fmt::format("rank {}", peer), "is it running?"));
}

/// Any lane may be connected first; the link itself connects the others.
asio::awaitable<void> mesh::connect_peer(int peer) {
  routes found = co_await find_routes(peer);
  const auto all = std::make_shared<const routes>(std::move(found));
  use_for_probes(peer, *all);
  const auto give_up = std::chrono::steady_clock::now() + options().meet_timeout;
  detail::connect_tries tries;
  for (std::size_t attempt = 0; wants(peer); ++attempt) {
    const std::size_t lane = attempt % all->size();
    const bool last = std::chrono::steady_clock::now() + lane_limit >= give_up;
    transport::hello answer;
    std::unique_ptr<lane_connection> made;
    try {
      made = co_await connect_lane(peer, (*all)[lane], pack(lane, all->size()), 1, lane_limit,
                                   answer, &tries);
    } catch (const error& e) {
      const bool nobody = e.code() == errc::unreachable || e.code() == errc::timed_out ||
                          e.code() == asio::error::connection_refused;
      const bool is_rdma = (*all)[lane].rdma;
      if (nobody && last && !tries.empty()) throw no_rail_to(peer, tries);
      if ((!nobody && !is_rdma) || last) throw;
      log(is_rdma ? log_level::warning : log_level::info, "rails", e.what());
      continue;
    }
    if (answer.answer == transport::handshake_status::accepted && wants(peer)) {
      const std::shared_ptr<link> over =
          make_link(peer, answer.limits, all->size(), (*all)[lane].peer_is_local);
      over->attach(static_cast<std::uint16_t>(lane), 1, std::move(made), (*all)[lane].name);
      over->run([weak = weak_from_this(), peer, all](std::uint16_t index, std::uint32_t epoch,
                                                     std::string& name) {
        const auto self = std::static_pointer_cast<mesh>(weak.lock());
        if (!self) throw error(errc::channel_closed, "this rank has left the job");
        return reconnect_lane(self, peer, all, index, epoch, name);
      });
      co_return;
    }
    co_await wait_for_crossed();
  }
}

asio::awaitable<std::unique_ptr<lane_connection>> mesh::reconnect_lane(
    std::shared_ptr<mesh> self, int peer, std::shared_ptr<const routes> all, std::uint16_t lane,
    std::uint32_t epoch, std::string& name) {
  const route& by = (*all)[lane];
  name = by.name;
  transport::hello answer;
  const std::uint32_t rail = pack(lane, all->size());
  std::unique_ptr<lane_connection> made =
      co_await self->connect_lane(peer, by, rail, epoch, lane_limit, answer);
  if (by.rdma) name = self->name_over_rdma(by.rail, by.to.address());
  if (answer.answer != transport::handshake_status::accepted) {
    throw error(errc::unreachable, fmt::format("rank {} refused lane {}", peer, lane));
  }
  co_return made;
}

asio::awaitable<void> mesh::learn_routes(int peer) {
  const auto self = shared_from_this();
  try {
    peer_routes_[static_cast<std::size_t>(peer)] = co_await find_routes(peer);
    use_for_probes(peer, peer_routes_[static_cast<std::size_t>(peer)]);
  } catch (const std::exception& e) {
    log(log_level::debug, "rails", describe(e));  // a lost peer is then detected by timeout
  }
}

/// A peer that is alive refuses the connection, as it connects the lanes itself.
asio::awaitable<void> mesh::probe_peer(std::shared_ptr<mesh> self, int peer) {
  const routes all = self->peer_routes_[static_cast<std::size_t>(peer)];
  for (const route& by : all) {
    if (by.rdma) continue;
    try {
      transport::hello answer;
      co_await self->connect_lane(peer, by, pack(0, all.size()), 0, lane_limit, answer);
      co_return;
    } catch (const error& e) {
      if (e.code() != errc::unreachable && e.code() != errc::timed_out) throw;
    }
  }
}

transport::handshake_status mesh::check_hello(const transport::hello& remote) noexcept {
  const std::shared_ptr<link>& over = links_[static_cast<std::size_t>(remote.from)];
  if (!over) {
    const bool sane = lanes_of(remote) >= 1 && lanes_of(remote) <= max_lanes &&
                      lane_of(remote) < lanes_of(remote);
    return sane ? fabric_base::check_hello(remote) : transport::handshake_status::crossed;
  }
  const bool fits = !over->connects_lanes() && over->accepts_epoch(lane_of(remote), remote.epoch);
  return fits ? transport::handshake_status::accepted : transport::handshake_status::crossed;
}

std::string_view mesh::interface_of(const asio::ip::address& local) const noexcept {
  for (const published_rail& rail : local_rails_) {
    for (const listen_endpoint& d : rail.endpoints) {
      if (d.where == local) return rail.interface;
    }
  }
  return "?";
}

std::shared_ptr<link> mesh::link_for(const transport::hello& remote,
                                     const asio::ip::address& from) {
  std::shared_ptr<link> over = links_[static_cast<std::size_t>(remote.from)];
  if (over) return over;
  over = make_link(remote.from, remote.limits, lanes_of(remote), is_local_address(nics_, from));
  asio::co_spawn(get_executor(), learn_routes(remote.from), asio::detached);
  over->run(nullptr, [weak = weak_from_this(), peer = remote.from] {
    const auto self = std::static_pointer_cast<mesh>(weak.lock());
    if (!self) throw error(errc::channel_closed, "this rank has left the job");
    return probe_peer(self, peer);
  });
  return over;
}

void mesh::accept_tcp_peer(sealed::connection incoming, const transport::hello& remote) {
  error_code ignored;
  const std::shared_ptr<link> over =
      link_for(remote, incoming.socket.remote_endpoint(ignored).address());
  const asio::ip::tcp::endpoint here = incoming.socket.local_endpoint(ignored);
  std::string name =
      fmt::format("{} {} - {}", interface_of(here.address()), transport::to_text(here),
                  transport::to_text(incoming.socket.remote_endpoint(ignored)));
  over->attach(static_cast<std::uint16_t>(lane_of(remote)), remote.epoch,
               std::make_unique<tcp_lane_connection>(std::move(incoming), is_standby(remote)),
               std::move(name));
}

void mesh::accept_rdma_peer(std::size_t rail, sealed::connection incoming,
                            const transport::hello& remote) {
  error_code ignored;
  const std::shared_ptr<link> over =
      link_for(remote, incoming.socket.remote_endpoint(ignored).address());
  asio::co_spawn(get_executor(), set_up_rdma_lane(rail, std::move(incoming), remote, over),
                 asio::detached);
}

/// On a failure here the peer only sees its connection closed, and connects again. So the reason is
/// logged at this end, as a warning only when it changes.
asio::awaitable<void> mesh::set_up_rdma_lane(std::size_t rail, sealed::connection incoming,
                                             transport::hello remote, std::shared_ptr<link> over) {
  const auto self = shared_from_this();
  try {
    error_code ignored;
    const asio::ip::address from = incoming.socket.remote_endpoint(ignored).address();
    std::unique_ptr<lane_connection> made = co_await rdma_.set_up(rail, std::move(incoming));
    rdma_failure_.clear();
    std::string name = name_over_rdma(rail, from);
    over->attach(static_cast<std::uint16_t>(lane_of(remote)), remote.epoch, std::move(made),
                 std::move(name));
  } catch (const std::exception& e) {
    const auto* const known = dynamic_cast<const error*>(&e);
    const bool by_peer = known != nullptr && known->code() == errc::peer_closed;
    const std::string why = describe(e);
    const bool is_new = !by_peer && !over->is_over() && rdma_failure_ != why;
    if (!by_peer) rdma_failure_ = why;
    log(is_new ? log_level::warning : log_level::info, "rails", why);
  }
}

std::shared_ptr<link> mesh::make_link(int peer, const protocol::limits& remote, std::size_t lanes,
                                      bool peer_is_local) {
  // The tags of encrypted records authenticate the same bytes that checksums would cover.
  const bool guards = options().checksum > (peer_is_local ? 1 : 0) && !options().encrypt;
  const auto made =
      std::make_shared<link>(get_executor(), protocol::agreed(make_hello(peer).limits, remote),
                             protocol::identity{rank(), peer, fmt::format("{} lanes", lanes)},
                             options().operation_timeout, lanes, bounds_of(options()), guards);
  links_[static_cast<std::size_t>(peer)] = made;
  if (monitor_) {
    monitor_->start();
    made->use_monitor(monitor_);
  }
  made->on_lost(lost_handler());
  made->on_silent(silent_handler());
  install(peer, std::make_unique<transport::channel_handle<link>>(made));
  return made;
}

asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options) {
  return transport::open_fabric<mesh>(std::move(meeting), std::move(options));
}

}  // namespace tandem::rails
