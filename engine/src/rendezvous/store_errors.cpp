#include "rendezvous/store_errors.hpp"

#include <fmt/format.h>

#include "rendezvous/store_protocol.hpp"

namespace tandem::rendezvous {

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
