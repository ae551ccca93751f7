#include "tcp/introduce.hpp"

#include <fmt/format.h>

namespace tandem::tcp {

std::optional<bool> come_to_know(std::span<const std::byte> so_far, hello& says, std::string& why) {
  switch (decode(so_far, says)) {
    case reading::complete:
    case reading::other_version:
      return true;
    case reading::damaged:
      why = "its hello is corrupt";
      return false;
    case reading::other_program:
      why = "it sent " + excerpt(so_far);
      return false;
    case reading::incomplete:
      break;
  }
  return {};
}

error other_secret(const std::string& where) {
  return error(errc::not_trusted, fmt::format("{} has a different job secret", where),
               "give every rank of the job the same (TANDEM_SECRET_FILE or TANDEM_SECRET)");
}

void check_answer(hello& answer, const hello& mine, const std::string& where) {
  if (answer.version != mine.version) answer.answer = verdict::wrong_version;
  const bool is_welcome = answer.answer == verdict::welcome || answer.answer == verdict::crossed;
  const bool same_trust = answer.keyed == mine.keyed;
  if (is_welcome && same_trust && answer.sealed == mine.sealed) return;
  if (is_welcome) answer.answer = same_trust ? verdict::not_sealed : verdict::not_trusted;
  throw refusal(answer, mine, where);
}

}  // namespace tandem::tcp
