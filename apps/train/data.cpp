#include "data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <tandem/detail/crc32c.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>

namespace tandem::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_bytes = std::size_t{1} << 30;
constexpr const char* data_advice = "name a readable file or folder with --data";

[[noreturn]] void refuse(const fs::path& path, std::string_view why,
                         std::string advice = data_advice) {
  throw error(errc::bad_input, fmt::format("{}: {}", path.string(), why), std::move(advice));
}

bool hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  fs::recursive_directory_iterator at(folder, failed);
  for (const fs::recursive_directory_iterator end; !failed && at != end; at.increment(failed)) {
    if (hidden(at->path())) {
      at.disable_recursion_pending();
    } else if (std::error_code ignored; at->is_regular_file(ignored)) {
      found.push_back(at->path());
    }
  }
  if (failed) refuse(folder, failed.message());
  std::sort(found.begin(), found.end());
  return found;
}

/// The files at `from`, each once: of a symbolic link and its target, the target is kept.
std::vector<fs::path> files_of(const fs::path& from) {
  std::error_code failed;
  const fs::file_status status = fs::status(from, failed);
  if (!fs::exists(status)) refuse(from, detail::errno_text(failed ? failed.value() : ENOENT));
  if (fs::is_regular_file(status)) return {from};
  if (!fs::is_directory(status)) refuse(from, "neither a file nor a folder");

  std::vector<fs::path> files = files_below(from);
  std::stable_partition(files.begin(), files.end(), [](const fs::path& file) {
    std::error_code ignored;
    return !fs::is_symlink(file, ignored);
  });
  std::set<fs::path> seen;
  std::erase_if(files, [&seen](const fs::path& file) {
    std::error_code ignored;
    return !seen.insert(fs::canonical(file, ignored)).second;
  });
  std::sort(files.begin(), files.end());
  return files;
}

void append_file(const fs::path& path, std::vector<std::uint8_t>& bytes) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse(path, errno != 0 ? detail::errno_text(errno) : "cannot be opened");
  char block[64 * 1024];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    if (bytes.size() + static_cast<std::size_t>(in.gcount()) > max_bytes) {
      refuse(path, "the text is longer than 1 GiB", "name fewer files with --data");
    }
    bytes.insert(bytes.end(), block, block + in.gcount());
  }
  if (in.bad()) refuse(path, errno != 0 ? detail::errno_text(errno) : "cannot be read");
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): each input bit reaches each
/// output bit.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

corpus load_corpus(const fs::path& from) {
  corpus text;
  text.source = from.string();
  for (const fs::path& file : files_of(from)) {
    append_file(file, text.bytes);
    text.files.push_back(file.string());
  }
  if (text.files.empty()) refuse(from, "the folder holds no file");
  if (text.bytes.empty()) refuse(from, "the text is empty, so there is nothing to train on");
  text.checksum = crc32c(text.bytes.data(), text.bytes.size());
  return text;
}

void require_sequence(const corpus& text, std::size_t sequence_tokens) {
  if (text.bytes.size() > sequence_tokens) return;
  refuse(text.source,
         fmt::format("{} bytes are too few for one sequence of {} tokens and its successor",
                     text.bytes.size(), sequence_tokens),
         "name more text with --data, or a shorter --sequence");
}

void sample_sequence(const corpus& text, std::uint64_t seed, std::uint64_t step,
                     std::uint64_t sequence, std::span<std::uint8_t> inputs,
                     std::span<std::uint8_t> targets) {
  require_sequence(text, inputs.size());
  const std::uint64_t start_count = text.bytes.size() - inputs.size();
  const std::uint64_t start = mix(mix(mix(seed) ^ step) ^ sequence) % start_count;
  const std::uint8_t* first = text.bytes.data() + start;
  std::copy_n(first, inputs.size(), inputs.begin());
  std::copy_n(first + 1, targets.size(), targets.begin());
}

}  // namespace tandem::train
