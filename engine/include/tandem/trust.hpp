#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <tandem/secret.hpp>
#include <tandem/settings.hpp>

/// What ranks prove to each other, and with what.
namespace tandem::trust {

constexpr std::size_t digest_bytes = 32;
using digest = std::array<std::byte, digest_bytes>;

/// From the operating system's generator, by OpenSSL. @par Errors `tandem::error` where there is
/// none.
void random_bytes(std::span<std::byte> into);

/// HMAC-SHA256 (RFC 2104) over the parts, one after the other. Their lengths are not covered: all
/// parts but one have a fixed one.
digest hmac_sha256(std::span<const std::byte> key,
                   std::initializer_list<std::span<const std::byte>> parts);

/// Takes as long whatever the bytes are; other lengths are not equal.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept;

/// A key for one purpose: HKDF-SHA256 (RFC 5869) of `from`, with `context` as salt and `label` as
/// information. Keys of other labels or contexts tell nothing about it.
secret derive_key(const secret& from, std::string_view label, std::string_view context = {});

/// The secret that all ranks of a job share: the content of `secret_file` without the end of its
/// last line, else `settings::job_secret`. Empty where there is none, or certificates take its
/// place.
/// @par Errors `errc::bad_input`: the file is missing, no regular file, another user's, open to
///   others (its mode must be 0600 or 0400), or the secret is shorter than 16 bytes.
secret job_secret(const settings& options);

}  // namespace tandem::trust
