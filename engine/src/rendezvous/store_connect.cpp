#include "rendezvous/store_connect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/use_awaitable.hpp>
#include <span>
#include <tandem/async.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/resources.hpp>

#include "rendezvous/store_protocol.hpp"

namespace tandem::rendezvous {
namespace {

/// An address that drops packets must not use up the time for the other addresses.
constexpr std::chrono::milliseconds max_connect_time{3'000};

asio::awaitable<void> connect_once(tcp::socket& socket, tcp::endpoint to) {
  error_code unopened;
  detail::open(socket, to.protocol(), unopened);
  if (unopened) throw boost::system::system_error(unopened);
  // While nothing listens on a port in the ephemeral range, TCP simultaneous open can connect the
  // socket to itself. It must not keep rank 0 from listening there, and counts as refused.
  socket.set_option(tcp::socket::reuse_address(true));
  co_await socket.async_connect(to, asio::use_awaitable);
  if (socket.local_endpoint() == socket.remote_endpoint()) {
    throw boost::system::system_error(asio::error::connection_refused);
  }
}

}  // namespace

asio::awaitable<error_code> connect(tcp::socket& socket, tcp::endpoint to,
                                    std::chrono::steady_clock::time_point until,
                                    detail::connect_tries& tries) {
  using duration = std::chrono::steady_clock::duration;
  const duration left = until - std::chrono::steady_clock::now();
  const duration limit = std::clamp<duration>(left, first_backoff, max_connect_time);
  error_code why;
  try {
    co_await with_deadline(limit, connect_once(socket, to), "connect");
  } catch (const boost::system::system_error& failed) {
    if (detail::is_exhausted(failed.code(), detail::resource::descriptor)) {
      throw detail::exhausted(failed.code().value(), detail::resource::descriptor,
                              "cannot open a socket to rank 0's store");
    }
    why = failed.code();
  }
  if (why) tries.failed(to, why, limit);
  co_return why;
}

std::shared_ptr<const trust::credentials> load_credentials(const launch_info& who,
                                                           const settings& options) {
  try {
    return trust::credentials::load(options, who.job);
  } catch (const error& e) {
    error_context outer;
    outer.rank = who.rank;
    throw with_context(e, outer);
  }
}

secret make_data_key() {
  trust::digest bytes;
  trust::random_bytes(bytes);
  secret key{std::span<const std::byte>(bytes)};
  wipe(bytes);
  return key;
}

error not_a_store_error(const std::string& where, std::string_view received_text) {
  return error(errc::not_tandem,
               fmt::format("{} answers but is not a Tandem store (got '{}')", where,
                           printable(received_text)),
               "give rank 0's address (TANDEM_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT)");
}

error authentication_error(const std::string& where, const trust::tls_session& session,
                           const trust::credentials& own) {
  if (is_opening(session.non_tls_bytes())) {
    return error(errc::not_trusted,
                 fmt::format("rank 0's store at {} has no secret, this rank has one", where),
                 "give every rank of the job the same (TANDEM_SECRET_FILE or TANDEM_SECRET)");
  }
  if (!session.non_tls_bytes().empty()) return not_a_store_error(where, session.non_tls_bytes());
  error_context c;
  c.peer = 0;
  c.detail = fmt::format("mutual authentication with rank 0's store at {} failed: {}", where,
                         session.why());
  c.advice =
      own.has_secret()
          ? "give every rank of the job the same secret (TANDEM_SECRET_FILE or TANDEM_SECRET), and "
            "each job a port of its own"
          : "give every rank a certificate signed by an authority that is in the authorities file "
            "of all ranks, and correct clocks";
  return error(make_error_code(errc::not_trusted), std::move(c));
}

error rank_0_lost_error(const std::string& where, const std::string& how) {
  error_context c;
  c.peer = 0;
  c.detail = fmt::format("rank 0 is gone: its store at {} closed unexpectedly{}", where,
                         how.empty() ? "" : fmt::format(" ({})", how));
  c.advice = "check the last output of rank 0";
  return error(make_error_code(errc::peer_lost), std::move(c));
}

}  // namespace tandem::rendezvous
