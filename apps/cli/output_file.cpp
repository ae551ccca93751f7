#include "cli/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <tandem/error.hpp>
#include <vector>

#include "cli/output_target.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

std::string advice_for(int number, const std::string& option) {
  switch (number) {
    case ENOSPC:
      return "make room on that disk";
    case EDQUOT:
      return "make room in your quota";
    case EFBIG:
      return "raise the limit on the size of files, `ulimit -f`";
    case ENXIO:
      return "start its reader first";
    default:
      return fmt::format("give {} a file in a folder that exists and is yours", option);
  }
}

error cannot_write(const std::string& option, const std::string& path, int number,
                   const std::string& more = {}) {
  return error(
      errc::bad_input,
      fmt::format("{} {}: cannot be written: {}{}", option, path, std::strerror(number), more),
      more.empty() ? advice_for(number, option) : "");
}

/// Folders of last resort, the likeliest first.
std::vector<fs::path> other_folders() {
  const char* const temporary = std::getenv("TMPDIR");
  const char* const home = std::getenv("HOME");
  std::vector<fs::path> folders;
  for (const char* const folder : {temporary, "/tmp", "/var/tmp", home, "."}) {
    if (folder != nullptr && *folder != '\0') folders.emplace_back(folder);
  }
  return folders;
}

/// "; it is kept as /tmp/..." or "; and it could be kept nowhere else".
std::string keep_elsewhere(const std::string& path, std::string_view content) {
  int failed = 0;
  std::string tried;
  for (const fs::path& folder : other_folders()) {
    const fs::path kept =
        write_new_file(folder, fs::path(path).filename().string(), content, failed);
    if (!kept.empty()) {
      std::error_code ignored;
      return fmt::format("; it is kept as {}", fs::absolute(kept, ignored).string());
    }
    tried +=
        fmt::format("{}{}: {}", tried.empty() ? "" : ", ", folder.string(), std::strerror(failed));
  }
  return fmt::format("; and it could be kept nowhere else ({})", tried);
}

}  // namespace

void output_file::check(std::size_t expected_bytes) const {
  if (!is_wanted()) return;
  output_target target;
  int failed = output_target::find(path_, target);
  if (failed == 0) failed = target.probe(expected_bytes);
  if (failed != 0) throw cannot_write(option_, path_, failed);
}

void output_file::write(std::string_view content) const {
  if (!is_wanted()) return;
  output_target target;
  int failed = output_target::find(path_, target);
  if (failed == 0) failed = target.replace(content);
  if (failed != 0) throw cannot_write(option_, path_, failed, keep_elsewhere(path_, content));
}

void output_file::append(std::string_view text) {
  if (!is_wanted()) return;
  const bool first = appended_.empty();
  appended_ += text;
  if (first) append_failed_ = open_stream();
  if (append_failed_ != 0) return;
  std::fflush(stdout);  // what was printed before comes before, where it goes to the same place
  append_failed_ = write_all(::fileno(stream_.get()), text);
}

int output_file::open_stream() {
  output_target target;
  if (const int failed = output_target::find(path_, target)) return failed;
  const int opened = target.open_stream();
  if (opened < 0) return errno;
  stream_.reset(::fdopen(opened, "w"));
  if (stream_) return 0;
  ::close(opened);
  return ENOMEM;
}

void output_file::finish() {
  int failed = std::exchange(append_failed_, 0);
  if (stream_ && std::fclose(stream_.release()) != 0 && failed == 0) failed = errno;
  if (failed != 0) throw cannot_write(option_, path_, failed, keep_elsewhere(path_, appended_));
}

}  // namespace tandem::cli
