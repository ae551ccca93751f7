#include "cli/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/file_replacement.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>
#include <vector>

#include "cli/console.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

std::string advice_for(int number, const std::string& option) {
  switch (number) {
    case ENOSPC:
      return "free space on that file system";
    case EDQUOT:
      return "free space in your disk quota";
    case EFBIG:
      return "raise the file size limit: `ulimit -f`";
    case ENXIO:
      return "start the reader of the pipe first";
    case EPIPE:
      return "its reader must read to the end";
    default:
      return fmt::format("give {} a path in an existing folder that you may write to", option);
  }
}

error cannot_write(const std::string& option, const std::string& path, int number,
                   const std::string& more = {}) {
  return error(
      errc::bad_input,
      fmt::format("{} {}: cannot be written: {}{}", option, path, detail::errno_text(number), more),
      more.empty() ? advice_for(number, option) : "");
}

/// Fallback folders, in the order in which they are tried.
std::vector<fs::path> other_folders() {
  const char* const temporary = std::getenv("TMPDIR");
  const char* const home = std::getenv("HOME");
  std::vector<fs::path> folders;
  for (const char* const folder : {temporary, "/tmp", "/var/tmp", home, "."}) {
    if (folder != nullptr && *folder != '\0') folders.emplace_back(folder);
  }
  return folders;
}

/// "; the content was saved as /tmp/..." or "; saving it elsewhere failed as well (...)".
std::string save_elsewhere(const std::string& path, std::string_view content) {
  int failed = 0;
  std::string tried;
  for (const fs::path& folder : other_folders()) {
    const fs::path saved_path =
        write_new_file(folder, fs::path(path).filename().string(), content, failed);
    if (!saved_path.empty()) {
      std::error_code ignored;
      return fmt::format("; the content was saved as {}",
                         fs::absolute(saved_path, ignored).string());
    }
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : ", ", folder.string(),
                         detail::errno_text(failed));
  }
  return fmt::format("; saving it elsewhere failed as well ({})", tried);
}

}  // namespace

void output_file::check(std::size_t expected_bytes) const {
  if (!is_enabled()) return;
  const auto probe = [path = path_, expected_bytes] {
    output_target target;
    const int failed = output_target::find(path, target);
    return failed != 0 ? failed : target.probe(expected_bytes);
  };
  const int failed =
      detail::require_answer(fmt::format("{} {}", option_, path_), detail::driver_timeout(),
                             "does its file system respond?", probe);
  if (failed != 0) throw cannot_write(option_, path_, failed);
}

void output_file::write(std::string_view content) const {
  if (!is_enabled()) return;
  output_target target;
  int failed = output_target::find(path_, target);
  if (target.what == output_target::kind::descriptor) print_now({});  // earlier output comes first
  if (failed == 0) failed = target.replace(content);
  if (failed != 0) throw cannot_write(option_, path_, failed, save_elsewhere(path_, content));
}

void output_file::append(std::string_view text) {
  if (!is_enabled()) return;
  const bool first = appended_.empty();
  appended_ += text;
  if (first) open_stream();
  if (append_failed_ != 0 || !stream_) return;
  print_now({});  // earlier output comes first if both go to the same file
  append_failed_ = detail::write_all(::fileno(stream_.get()), text);
}

void output_file::open_stream() {
  append_failed_ = output_target::find(path_, target_);
  if (append_failed_ != 0) {
    target_.file.clear();  // whatever is there must not be replaced
    return;
  }
  const int opened = target_.open_stream();
  if (opened < 0) {
    append_failed_ = errno;
    return;
  }
  stream_.reset(::fdopen(opened, "w"));
  if (stream_) return;
  ::close(opened);
  append_failed_ = ENOMEM;
}

void output_file::finish() {
  if (appended_.empty()) return;
  int failed = std::exchange(append_failed_, 0);
  if (stream_ && std::fclose(stream_.release()) != 0 && failed == 0) failed = errno;
  if (!target_.file.empty() && target_.is_replaced_whole()) {
    failed = target_.replace(appended_);  // whatever happened to the part
    if (failed == 0) ::unlink(target_.part().c_str());
  }
  if (failed != 0) throw cannot_write(option_, path_, failed, save_elsewhere(path_, appended_));
  appended_.clear();
}

}  // namespace tandem::cli
