#include "fabric/hello.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cstring>
#include <tandem/detail/crc32c.hpp>

#include "protocol/frame.hpp"

namespace tandem::transport {
namespace {

constexpr std::uint32_t keyed_flag = 1, sealed_flag = 2;
constexpr char magic[] = {'T', 'N', 'D', 'M', 'H', 'E', 'L', 'O'};
using protocol::put;
using protocol::take;

}  // namespace

void encode(const hello& from, wire_hello& to) noexcept {
  to.fill(std::byte{0});
  std::byte* p = to.data();
  std::memcpy(p, magic, sizeof magic);
  put<std::uint32_t>(p + 8, from.version);
  put<std::uint32_t>(p + 12, static_cast<std::uint32_t>(from.answer));
  put<std::uint64_t>(p + 16, from.job);
  put<std::int32_t>(p + 24, from.from);
  put<std::int32_t>(p + 28, from.to);
  put<std::int32_t>(p + 32, from.size);
  put<std::uint32_t>(p + 36, from.limits.eager_bytes);
  put<std::uint32_t>(p + 40, from.limits.chunk_bytes);
  put<std::uint32_t>(p + 44, from.limits.credit_bytes);
  put<std::uint32_t>(p + 48, from.limits.max_flows);
  put<std::uint32_t>(p + 52, (from.keyed ? keyed_flag : 0) | (from.sealed ? sealed_flag : 0));
  std::memcpy(p + 56, from.once.data(), nonce_bytes);
  put<std::uint32_t>(p + 72, from.rail);
  put<std::uint32_t>(p + 76, from.epoch);
  put<std::uint32_t>(p + 92, crc32c(p, 92));
}

decode_status decode(std::span<const std::byte> so_far, hello& to) noexcept {
  const std::byte* p = so_far.data();
  if (std::memcmp(p, magic, std::min(so_far.size(), sizeof magic)) != 0)
    return decode_status::other_program;
  if (so_far.size() < 16) return decode_status::incomplete;
  to.version = take<std::uint32_t>(p + 8);
  to.answer = static_cast<handshake_status>(take<std::uint32_t>(p + 12));
  if (to.version != protocol::protocol_version) return decode_status::other_version;
  if (so_far.size() < hello_bytes) return decode_status::incomplete;
  if (take<std::uint32_t>(p + 92) != crc32c(p, 92)) return decode_status::damaged;
  to.job = take<std::uint64_t>(p + 16);
  to.from = take<std::int32_t>(p + 24);
  to.to = take<std::int32_t>(p + 28);
  to.size = take<std::int32_t>(p + 32);
  to.limits = {take<std::uint32_t>(p + 36), take<std::uint32_t>(p + 40),
               take<std::uint32_t>(p + 44), take<std::uint32_t>(p + 48)};
  const auto flags = take<std::uint32_t>(p + 52);
  to.keyed = (flags & keyed_flag) != 0;
  to.sealed = (flags & sealed_flag) != 0;
  std::memcpy(to.once.data(), p + 56, nonce_bytes);
  to.rail = take<std::uint32_t>(p + 72);
  to.epoch = take<std::uint32_t>(p + 76);
  const bool sane = to.limits.chunk_bytes >= protocol::min_chunk_bytes && to.limits.max_flows > 0 &&
                    to.limits.max_flows <= protocol::max_supported_flows;
  return sane ? decode_status::complete : decode_status::damaged;
}

handshake_status validate_hello(const hello& remote, const hello& local) noexcept {
  if (remote.version != local.version) return handshake_status::wrong_version;
  if (remote.keyed != local.keyed) return handshake_status::not_trusted;
  if (remote.job != local.job || remote.size != local.size) return handshake_status::wrong_job;
  const bool same_world = local.size == 0
                              ? remote.from == -1 && remote.to == -1
                              : remote.to == local.from && remote.from >= 0 &&
                                    remote.from < local.size && remote.from != local.from;
  if (!same_world) return handshake_status::wrong_rank;
  return remote.sealed == local.sealed ? handshake_status::accepted : handshake_status::not_sealed;
}

error refusal(const hello& answer, const hello& local, const std::string& where) {
  switch (answer.answer) {
    case handshake_status::wrong_version:
      return error(errc::version_mismatch,
                   fmt::format("{} uses protocol version {}, this program {}", where,
                               answer.version, local.version),
                   "run the same Tandem version on every rank");
    case handshake_status::wrong_job:
      return error(errc::job_mismatch, fmt::format("{} belongs to another job", where),
                   "is an old job still running there? choose another port or end it");
    case handshake_status::wrong_rank:
      return error(
          errc::rank_taken,
          fmt::format("{} is not rank {}, or does not accept this process's rank", where, local.to),
          "start every rank of the job with its own number and the same size");
    case handshake_status::not_trusted:
      return error(errc::not_trusted,
                   where + (local.keyed ? " has no job secret, the connecting peer has one"
                                        : " has a job secret, the connecting peer has none"),
                   "give every rank of the job the same (TANDEM_SECRET_FILE or TANDEM_SECRET)");
    case handshake_status::not_sealed:
      return error(errc::bad_option,
                   fmt::format("{} has encrypt={:d}, the connecting peer has encrypt={:d}", where,
                               answer.sealed, local.sealed),
                   "give every rank of the job the same (TANDEM_ENCRYPT)");
    case handshake_status::no_descriptors:
      return error(
          errc::limit_exceeded,
          fmt::format("{} is out of file descriptors and cannot accept connections", where),
          "raise the limit of that process (RLIMIT_NOFILE): ulimit -n, LimitNOFILE= of a "
          "systemd unit; its log says how many it has");
    default:
      return error(errc::protocol_violation,
                   fmt::format("{} answered with an unknown handshake status ({})", where,
                               static_cast<std::uint32_t>(answer.answer)));
  }
}

std::string excerpt(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes.first(std::min<std::size_t>(bytes.size(), 24))) {
    const int c = static_cast<int>(b);
    if (std::isprint(c) != 0) {
      text += static_cast<char>(c);
    } else {
      text += fmt::format("\\x{:02x}", c);
    }
  }
  return "'" + text + "'";
}

std::uint64_t job_number(const std::string& job) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace tandem::transport
