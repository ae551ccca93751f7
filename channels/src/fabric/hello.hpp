#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tandem/error.hpp>

#include "protocol/limits.hpp"

namespace tandem::transport {

/// The hello, the first 96 bytes of a connection in both directions, little endian:
///
///    0 magic "TNDMHELO"   8 version u32     12 status u32
///   16 job u64           24 from rank i32   28 to rank i32    32 job size i32
///   36 eager u32         40 chunk u32       44 credit u32     48 max flows u32
///   52 flags u32 (1: keyed, 2: sealed)      56 nonce 16 bytes (zero where not keyed)
///   72 rail u32          76 epoch u32       80 reserved       92 CRC32C of bytes 0..91
///
/// The first 16 bytes keep their meaning in every version, so that two versions can recognize each
/// other. Where both ends are keyed, proofs follow: see proof.hpp.
enum class handshake_status : std::uint32_t {
  accepted = 0,
  wrong_version = 1,
  wrong_job = 2,
  wrong_rank = 3,     ///< `to` is not the listening rank, or `from` is not a rank of the job
  crossed = 4,        ///< both ranks connected at the same time, and the other connection is kept
  not_trusted = 5,    ///< only one side has a key
  not_sealed = 6,     ///< only one side encrypts
  no_descriptors = 7  ///< the listening process is out of file descriptors
};

constexpr std::size_t nonce_bytes = 16;
using nonce = std::array<std::byte, nonce_bytes>;

struct hello {
  std::uint32_t version = 1;
  handshake_status answer = handshake_status::accepted;
  std::uint64_t job = 0;
  int from = -1;
  int to = -1;
  int size = 0;
  protocol::limits limits;
  bool keyed = false;   ///< this end has a key, and requires and sends a proof
  bool sealed = false;  ///< this end encrypts what follows the proofs, and requires it of the peer
  nonce once{};         ///< random, for this connection only
  std::uint32_t rail = 0;
  std::uint32_t epoch = 0;
};

constexpr std::size_t hello_bytes = 96;
using wire_hello = std::array<std::byte, hello_bytes>;

void encode(const hello& from, wire_hello& to) noexcept;

/// What the bytes received so far are.
enum class decode_status : std::uint8_t {
  incomplete,
  complete,
  other_program,
  other_version,
  damaged
};
decode_status decode(std::span<const std::byte> so_far, hello& to) noexcept;

/// The status that the listening side answers with, except `crossed`, which only the fabric can
/// decide.
handshake_status validate_hello(const hello& remote, const hello& local) noexcept;

/// Why a connection to `where` was refused, as an error for the connecting side.
error refusal(const hello& answer, const hello& local, const std::string& where);
/// Received bytes as text: "'HTTP/1.1 400 Bad'".
std::string excerpt(std::span<const std::byte> bytes);

/// The number that identifies a job: FNV-1a of the run id.
std::uint64_t job_number(const std::string& job) noexcept;

}  // namespace tandem::transport
