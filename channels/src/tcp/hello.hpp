#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tandem/error.hpp>

#include "protocol/limits.hpp"

namespace tandem::tcp {

/// The first words of a connection, the same 96 bytes both ways, little endian:
///
///    0 magic "TNDMHELO"   8 version u32     12 verdict u32
///   16 job u64           24 from rank i32   28 to rank i32    32 job size i32
///   36 eager u32         40 chunk u32       44 credit u32     48 max flows u32
///   52 flags u32 (1: keyed, 2: sealed)      56 nonce 16 bytes (zero where not keyed)
///   72 rail u32          76 epoch u32       80 reserved       92 CRC32C of bytes 0..91
///
/// The first 16 bytes keep their meaning in every version, so that two versions can name each
/// other. Where both are keyed, proofs follow: see proof.hpp.
enum class verdict : std::uint32_t {
  welcome = 0,
  wrong_version = 1,
  wrong_job = 2,
  wrong_rank = 3,     ///< `to` is not the rank that listens here, or `from` is no rank of the job
  crossed = 4,        ///< both ranks connected at once, and the other connection stays
  not_trusted = 5,    ///< one side has a key and the other has none
  not_sealed = 6,     ///< one side encrypts and the other does not
  no_descriptors = 7  ///< the listening process has no file descriptor left for the connection
};

constexpr std::size_t nonce_bytes = 16;
using nonce = std::array<std::byte, nonce_bytes>;

struct hello {
  std::uint32_t version = 1;
  verdict answer = verdict::welcome;
  std::uint64_t job = 0;
  int from = -1;
  int to = -1;
  int size = 0;
  protocol::limits limits;
  bool keyed = false;   ///< this end has a key, believes nothing without a proof and gives one
  bool sealed = false;  ///< this end encrypts what follows the proofs, and takes nothing else
  nonce once{};         ///< random, of this connection only
  std::uint32_t rail = 0;
  std::uint32_t epoch = 0;
};

constexpr std::size_t hello_bytes = 96;
using wire_hello = std::array<std::byte, hello_bytes>;

void encode(const hello& from, wire_hello& to) noexcept;

/// What the bytes read so far are.
enum class reading : std::uint8_t { incomplete, complete, other_program, other_version, damaged };
reading decode(std::span<const std::byte> so_far, hello& to) noexcept;

/// What the listening side answers, but for `crossed`, which only the fabric can know.
verdict judge(const hello& theirs, const hello& mine) noexcept;

/// Why a connection to `where` was refused, as an error for the connecting side.
error refusal(const hello& answer, const hello& mine, const std::string& where);
/// Bytes of a stranger as text: "'HTTP/1.1 400 Bad'".
std::string excerpt(std::span<const std::byte> bytes);

/// Jobs are told apart by a number: FNV-1a of the run id.
std::uint64_t job_number(const std::string& job) noexcept;

}  // namespace tandem::tcp
