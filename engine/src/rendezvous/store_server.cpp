#include "rendezvous/store_server.hpp"

#include <fmt/format.h>

#include <boost/asio/ip/v6_only.hpp>
#include <tandem/detail/connect_failure.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "rendezvous/listen_address.hpp"

namespace tandem::rendezvous {
namespace {

/// A client that sends requests and never reads must not fill rank 0's memory.
constexpr std::size_t max_queued_bytes = 4 * max_reply_bytes;

/// How long accept may lack file descriptors before the job fails.
constexpr std::chrono::seconds descriptor_grace{2};

/// The first bytes of a TLS handshake (RFC 8446, section 5.1).
constexpr std::string_view tls_opening("\x16\x03", 2);

std::chrono::steady_clock::time_point now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

store_server::store_server(tcp::acceptor at, store_core::parameters parameters, trust_pointer trust)
    : core_(std::move(parameters)),
      trust_(std::move(trust)),
      acceptor_(std::move(at)),
      timer_(acceptor_.get_executor()),
      accept_retry_timer_(acceptor_.get_executor()) {}

std::shared_ptr<store_server> store_server::listen(const asio::any_io_executor& executor,
                                                   const tcp::endpoint& at,
                                                   store_core::parameters parameters,
                                                   trust_pointer trust) {
  const std::string where = endpoint_text(at);
  auto server = std::make_shared<store_server>(tcp::acceptor(executor), std::move(parameters),
                                               std::move(trust));
  server->bind(at, where);
  server->accept();
  server->arm_timer();
  return server;
}

std::shared_ptr<store_server> store_server::serve(tcp::acceptor at,
                                                  store_core::parameters parameters,
                                                  trust_pointer trust) {
  auto server =
      std::make_shared<store_server>(std::move(at), std::move(parameters), std::move(trust));
  server->accept();
  server->arm_timer();
  return server;
}

void store_server::bind(const tcp::endpoint& at, const std::string& where) {
  error_code failed;
  detail::open(acceptor_, at.protocol(), failed);
  if (!failed) acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
  const bool all_families = at.address().is_v6() && at.address().is_unspecified();
  if (!failed && all_families) acceptor_.set_option(asio::ip::v6_only(false), failed);
  if (!failed) acceptor_.bind(at, failed);
  if (!failed) acceptor_.listen(asio::socket_base::max_listen_connections, failed);
  if (!failed) acceptor_.native_non_blocking(true, failed);
  if (!failed) return;
  error_context c;
  c.rank = 0;
  if (failed == asio::error::address_in_use) {
    c.detail =
        fmt::format("port {} of {} is in use: another job, or a second rank 0, listens there",
                    at.port(), at.address().to_string());
    c.advice = "end it, or choose another port (TANDEM_RENDEZVOUS=host:port or MASTER_PORT)";
    throw error(make_error_code(errc::address_in_use), std::move(c));
  }
  if (detail::is_exhausted(failed, detail::resource::descriptor)) {
    throw with_context(detail::exhausted(failed.value(), detail::resource::descriptor,
                                         fmt::format("rank 0 cannot listen on {}", where)),
                       c);
  }
  const bool is_foreign_address = failed == boost::system::errc::address_not_available;
  c.detail = fmt::format(
      "rank 0 cannot listen on {}: {}", where,
      is_foreign_address
          ? "no interface of this host has that address (it has " + local_addresses_text() + ")"
          : failed.message());
  c.advice =
      "give an address of rank 0's own machine (TANDEM_RENDEZVOUS or MASTER_ADDR) and a port it "
      "may use";
  throw error(make_error_code(errc::bad_input), std::move(c));
}

void store_server::accept() {
  if (accepting_ || stopped_) return;
  accepting_ = true;
  acceptor_.async_wait(tcp::acceptor::wait_read, [self = shared_from_this()](error_code failed) {
    self->accepting_ = false;
    if (self->stopped_) return;
    tcp::socket socket(self->acceptor_.get_executor());
    if (!failed) detail::accept(self->acceptor_, socket, failed);
    if (failed == asio::error::would_block) return self->accept();
    self->accepted(failed, std::move(socket));
  });
}

void store_server::accepted(const error_code& failed, tcp::socket socket) {
  if (failed) {
    refused_.add("accept", "cannot accept a connection: " + failed.message(), now());
    if (detail::is_exhausted(failed, detail::resource::descriptor)) out_of_descriptors(failed);
    // An immediate retry would only fail again.
    accept_retry_timer_.expires_after(std::chrono::milliseconds(100));
    accept_retry_timer_.async_wait([weak = weak_from_this()](const error_code& cancelled) {
      const auto self = weak.lock();
      if (!cancelled && self) self->accept();
    });
    return;
  }
  out_of_descriptors_since_.reset();
  error_code gone;
  const tcp::endpoint from = socket.remote_endpoint(gone);
  const socket_addresses addresses = addresses_of(socket);
  const std::uint64_t id = next_id_++;
  std::unique_ptr<trust::tls_session> session;
  if (trust_) {
    session = std::make_unique<trust::tls_session>(trust_, trust::tls_session::side::accepts);
  }
  auto connection = std::make_shared<store_connection>(std::move(socket), id, std::move(session));
  connections_[id].connection = connection;
  connections_[id].addresses = addresses;
  core_.opened(id, gone ? "a closed connection" : endpoint_text(from), now());
  connection->start(weak_from_this());
  apply_outputs();
}

/// A lasting shortage keeps missing ranks out, so the connected ranks get it as the cause. Once all
/// have joined it affects unauthenticated peers only.
void store_server::out_of_descriptors(const error_code& failed) {
  if (!out_of_descriptors_since_) out_of_descriptors_since_ = now();
  if (now() - *out_of_descriptors_since_ < descriptor_grace || !core_.is_meeting()) return;
  core_.report(core_.server_rank(), detail::exhausted(failed.value(), detail::resource::descriptor,
                                                      "rank 0's store cannot accept more ranks"));
  apply_outputs();
}

void store_server::received(store_connection& from, std::string_view bytes) {
  const auto found = connections_.find(from.id());
  if (found == connections_.end()) return;
  core_.bytes_arrived(from.id());
  found->second.splitter.feed(bytes);
  process_frames(found->second);
  apply_outputs();
}

void store_server::process_frames(peer_entry& from) {
  const std::uint64_t id = from.connection->id();
  frame_splitter& splitter = from.splitter;
  const auto at = splitter.at();
  const bool is_tandem =
      at == frame_splitter::state::open || at == frame_splitter::state::other_version;
  if (is_tandem && !from.opening_sent) {
    from.opening_sent = true;
    from.connection->send(encode_opening());
  }
  while (const auto body = splitter.next()) {
    std::optional<store_request> request = decode_request(*body);
    if (!request) {
      core_.malformed(id, fmt::format("invalid request ('{}')", printable(*body)), now());
      return;
    }
    core_.received(id, std::move(*request), now());
    if (core_.identified(id)) splitter.set_limit(max_frame_bytes);
  }
  switch (splitter.at()) {
    case frame_splitter::state::foreign:
      if (splitter.rest().starts_with(tls_opening)) {
        from.connection->send(encode_opening());  // tells the peer that rank 0 has no secret
        core_.untrusted(id, "it uses TLS: it has a secret, and rank 0 has none", now());
        break;
      }
      core_.malformed(
          id, fmt::format("it is not a Tandem rank (sent '{}')", printable(splitter.rest())),
          now());
      break;
    case frame_splitter::state::other_version:
      core_.malformed(id,
                      fmt::format("it uses version {} of the store's protocol, rank 0 {}",
                                  splitter.version(), store_version),
                      now());
      break;
    case frame_splitter::state::broken:
      core_.malformed(id, "an empty frame, or one longer than the limit", now());
      break;
    default:
      break;
  }
}

void store_server::ended(store_connection& from, const error_code& why) {
  log(log_level::debug, "rendezvous",
      fmt::format("connection {} ended: {}", from.id(), why.message()));
  from.close();
  connections_.erase(from.id());
  core_.closed(from.id(), detail::lost_packets_text(why));
  apply_outputs();
}

void store_server::untrusted(store_connection& from, const trust::tls_session& session) {
  if (is_opening(session.non_tls_bytes())) {
    const error why(errc::not_trusted, "rank 0's store has a secret, this rank has none",
                    "give every rank of the job the same (TANDEM_SECRET_FILE or TANDEM_SECRET)");
    from.send_unencrypted(encode_opening() + encode(store_reply(refused_reply{why})));
    core_.untrusted(from.id(), "it has no secret, and rank 0 has one", now());
  } else if (!session.non_tls_bytes().empty()) {
    core_.malformed(
        from.id(),
        fmt::format("it is not a Tandem rank (sent '{}')", printable(session.non_tls_bytes())),
        now());
  } else {
    core_.untrusted(from.id(), session.why(), now());
  }
  apply_outputs();
}

/// Called before the messages that all have joined are sent.
void store_server::publish_address() {
  if (published_ || !core_.running()) return;
  published_ = true;
  std::string address;
  for (const auto& [id, each] : connections_) {
    if (!address.empty() || each.addresses.is_same_host || !core_.identified(id)) continue;
    address = each.addresses.local_address;
  }
  core_.put(address_for_other_hosts, std::move(address), now());
}

void store_server::apply_outputs() {
  publish_address();
  for (auto outputs = core_.take(); !outputs.empty(); outputs = core_.take()) {
    for (store_core::output& out : outputs) {
      const auto found = connections_.find(out.to);
      if (found == connections_.end()) continue;
      const std::shared_ptr<store_connection> connection = found->second.connection;
      if (out.message) connection->send(encode(*out.message));
      if (out.close) {
        connections_.erase(found);
        connection->finish();
      } else if (connection->queued_bytes() > max_queued_bytes) {
        core_.malformed(connection->id(), "it does not read its replies", now());
      }
    }
  }
  if (core_.is_finished()) {
    stop();
    return;
  }
  arm_timer();
  accept();
}

void store_server::arm_timer() {
  const auto next = core_.next_deadline();
  if (stopped_ || !next) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(*next);
  timer_.async_wait([weak = weak_from_this()](const error_code& cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self || self->stopped_) return;
    self->core_.tick(now());
    self->apply_outputs();
  });
}

void store_server::leave() {
  if (stopped_) return;
  core_.leave(core_.server_rank());
  apply_outputs();
}

void store_server::report(const error& reason) {
  if (stopped_) return;
  core_.report(core_.server_rank(), reason);
  apply_outputs();
}

void store_server::unreachable(int rank) {
  if (stopped_) return;
  core_.unreachable(rank);
  apply_outputs();
}

void store_server::stop() noexcept {
  if (std::exchange(stopped_, true)) return;
  error_code ignored;
  acceptor_.close(ignored);
  timer_.cancel();
  accept_retry_timer_.cancel();
  const auto connections = std::exchange(connections_, {});
  for (const auto& [id, each] : connections) each.connection->close();
}

}  // namespace tandem::rendezvous
