#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <tandem/secret.hpp>
#include <tandem/settings.hpp>

/// Authentication between ranks.
namespace tandem::trust {

constexpr std::size_t digest_bytes = 32;
using digest = std::array<std::byte, digest_bytes>;

/// Random bytes of the operating system's generator, through OpenSSL. @par Errors `tandem::error`
/// if it is not available.
void random_bytes(std::span<std::byte> into);

/// HMAC-SHA256 (RFC 2104) over the concatenated parts. Part boundaries are not authenticated, so
/// all parts but one must have a fixed length.
digest hmac_sha256(std::span<const std::byte> key,
                   std::initializer_list<std::span<const std::byte>> parts);

/// Compares in time independent of the bytes; ranges of different lengths are not equal.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept;

/// A key for one purpose: HKDF-SHA256 (RFC 5869) of `from`, with `context` as salt and `label` as
/// info. Keys with other labels or contexts reveal nothing about it.
secret derive_key(const secret& from, std::string_view label, std::string_view context = {});

/// The secret shared by all ranks of a job: the content of `secret_file` without its last newline,
/// else `settings::job_secret`. Empty if there is none, or certificates are used instead.
/// @par Errors `errc::bad_input`: the file is missing, not a regular file, owned by another user or
///   accessible to others (its mode must be 0600 or 0400), or the secret is shorter than 16 bytes.
///   `errc::timed_out`: it cannot be read within `meet_timeout`.
secret job_secret(const settings& options);

/// Reads and checks the files of the secret or of the certificates, before the ranks meet.
/// @par Errors `errc::bad_input`: those of `job_secret`; a file of the certificates cannot be used,
///   its key is accessible to others, or they do not fit together, at this host's time.
///   `errc::timed_out`.
void check_credentials(const settings& options);

}  // namespace tandem::trust
