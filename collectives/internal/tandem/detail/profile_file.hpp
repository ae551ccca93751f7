#pragma once

#include <string>
#include <tandem/plan.hpp>

namespace tandem::detail {

/// The text of a profile file, which `facts::load` reads. The first line has its version, length
/// and checksum (`checked_file`); the others are those of `facts::text()`:
///
///   tandem profile 1: 221 bytes, crc32c 5be0d1c4
///   host a
///   within.channel shm
///   within.latency_ns 700
///   ...
///
/// A file that a user writes or edits begins with "tandem profile 1: edited" instead, and is then
/// read as it is: missing keys keep their defaults.
///
/// A file with another first line, or whose length or checksum differs, is refused: the rest of a
/// profile that was cut would be taken for a complete one. That includes profiles of versions
/// without a first line.
std::string profile_file(const facts& measured);

}  // namespace tandem::detail
