#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tandem::train {

/// The text to learn, as bytes: a token is a byte, the vocabulary has 256.
struct corpus {
  std::vector<std::uint8_t> bytes;
  std::vector<std::string> files;  ///< in the order in which they were joined
  std::string source;              ///< where they come from, as it was asked for
  std::uint32_t checksum = 0;      ///< CRC-32C of `bytes`: ranks compare it
};

/// The text files every Debian machine has.
inline constexpr const char* debian_licences = "/usr/share/common-licenses";

/// Reads a file, or all regular files below a folder, sorted by path so that every machine joins
/// them alike. A file that is reached twice, through symbolic links, counts once, and hidden
/// entries do not count.
/// @par Errors `errc::bad_input`: missing, unreadable, empty, or longer than 1 GiB in all.
corpus load_corpus(const std::filesystem::path& from);

/// Writes one training sequence: `inputs`, and in `targets` the byte that follows each of them.
/// Which piece of the text it is depends on seed, step and the sequence's number in the step's
/// global batch alone, so every layout of ranks learns from the same batch.
/// @pre equal lengths. @par Errors `errc::bad_input`: the text is shorter than one sequence.
void sample_sequence(const corpus& text, std::uint64_t seed, std::uint64_t step,
                     std::uint64_t sequence, std::span<std::uint8_t> inputs,
                     std::span<std::uint8_t> targets);

/// @par Errors `errc::bad_input`: fewer than `sequence_tokens` + 1 bytes.
void require_sequence(const corpus& text, std::size_t sequence_tokens);

}  // namespace tandem::train
