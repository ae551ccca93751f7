#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tandem::train {

/// The training text, as bytes: a token is a byte, the vocabulary has 256.
struct corpus {
  std::vector<std::uint8_t> bytes;
  std::vector<std::string> files;  ///< in the order of concatenation
  std::string source;              ///< the path as given by the user
  std::uint32_t checksum = 0;      ///< CRC-32C of `bytes`, compared between ranks
};

/// Text files present on every Debian machine.
inline constexpr const char* debian_licences = "/usr/share/common-licenses";

/// Reads a file, or all regular files below a folder, sorted by path so that every machine
/// concatenates them in the same order. A file that is found twice, through symbolic links, counts
/// once; hidden entries are skipped.
/// @par Errors `errc::bad_input`: missing, unreadable, empty, or longer than 1 GiB in total.
corpus load_corpus(const std::filesystem::path& from);

/// Fills one training sequence: `inputs`, and in `targets` the byte that follows each of them.
/// Its offset in the text depends only on seed, step and the sequence's number in the step's global
/// batch, so every layout of ranks trains on the same batch.
/// @pre equal lengths. @par Errors `errc::bad_input`: the text is shorter than one sequence.
void sample_sequence(const corpus& text, std::uint64_t seed, std::uint64_t step,
                     std::uint64_t sequence, std::span<std::uint8_t> inputs,
                     std::span<std::uint8_t> targets);

/// @par Errors `errc::bad_input`: fewer than `sequence_tokens` + 1 bytes.
void require_sequence(const corpus& text, std::size_t sequence_tokens);

}  // namespace tandem::train
