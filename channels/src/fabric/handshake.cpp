#include "fabric/handshake.hpp"

#include <fmt/format.h>

#include "fabric/handshake_server_body.hpp"
#include "fabric/tcp_connect.hpp"

namespace tandem::transport {

std::optional<bool> parse_hello(std::span<const std::byte> so_far, hello& fields,
                                std::string& why) {
  switch (decode(so_far, fields)) {
    case decode_status::complete:
    case decode_status::other_version:
      return true;
    case decode_status::damaged:
      why = "its hello is corrupt";
      return false;
    case decode_status::other_program:
      why = "it sent " + excerpt(so_far);
      return false;
    case decode_status::incomplete:
      break;
  }
  return {};
}

error secret_mismatch(const std::string& where) {
  return error(errc::not_trusted, fmt::format("{} has a different job secret", where),
               "give every rank of the job the same (TANDEM_SECRET_FILE or TANDEM_SECRET)");
}

void check_answer(hello& answer, const hello& local, const std::string& where) {
  if (answer.version != local.version) answer.answer = handshake_status::wrong_version;
  const bool is_welcome =
      answer.answer == handshake_status::accepted || answer.answer == handshake_status::crossed;
  const bool same_trust = answer.keyed == local.keyed;
  if (is_welcome && same_trust && answer.sealed == local.sealed) return;
  if (is_welcome)
    answer.answer = same_trust ? handshake_status::not_sealed : handshake_status::not_trusted;
  throw refusal(answer, local, where);
}

template class basic_handshake_server<asio::ip::tcp::socket>;

protocol::identity identity_of(const hello& local, const hello& remote, std::string rail) {
  const int named = local.to >= 0 ? local.to : remote.from;
  return {local.from, local.size == 0 ? -1 : named, std::move(rail)};
}

}  // namespace tandem::transport
