#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tandem::test {

/// A folder of this test, removed with it.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path(std::string_view name) const { return (path_ / name).string(); }
  /// Creates a file; returns its path.
  std::string file(std::string_view name, std::string_view content, mode_t mode = 0600) const {
    const std::string where = path(name);
    std::ofstream(where, std::ios::binary) << content;
    ::chmod(where.c_str(), mode);
    return where;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tandem::test
