#include "reduce/device_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <tandem/detail/checked_file.hpp>
#include <vector>

#include "support/environment_variable.hpp"
#include "support/temporary_folder.hpp"

namespace tandem::detail {
namespace {

const std::string code("\177ELF\0\1\2\n\0", 9);

class DeviceCache : public testing::Test {
 protected:
  /// Path of the only file.
  std::string file() const {
    std::vector<std::string> all;
    for (const auto& each : std::filesystem::directory_iterator(where)) all.push_back(each.path());
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? std::string() : all[0];
  }
  std::string content() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& what) const { std::ofstream(file(), std::ios::binary) << what; }

  test::temporary_folder folder;
  const std::string where = folder.path("a/b");
  const device_cache cache{where};
};

TEST_F(DeviceCache, ReturnsStoredEntry) {
  EXPECT_EQ(cache.find("key"), std::nullopt);
  cache.store("key", code);
  EXPECT_EQ(cache.find("key"), code);
  EXPECT_EQ(cache.find("other"), std::nullopt);
  EXPECT_EQ(cache.find("ke"), std::nullopt);
  cache.store("key", "newer");
  EXPECT_EQ(cache.find("key"), "newer");
  EXPECT_EQ(device_cache(where).find("key"), "newer");
}

TEST_F(DeviceCache, IgnoresFileOfAnotherKey) {
  cache.store("key", code);
  std::string changed = content();
  changed.replace(changed.find("key"), 3, "kez");
  write(changed);
  EXPECT_EQ(cache.find("key"), std::nullopt);
}

TEST_F(DeviceCache, IgnoresFilesOfOtherVersions) {
  cache.store("key", code);
  write("tandem kernels 1: 3 9 00000000\nkey" + code);
  EXPECT_EQ(cache.find("key"), std::nullopt);
  write(checked_file("kernels", 2).seal("3\nkez\n" + code));
  EXPECT_EQ(cache.find("key"), std::nullopt) << "another key with the same name of a file";
  write(checked_file("kernels", 2).seal("3\nkey\n" + code));
  EXPECT_EQ(cache.find("key"), code);
}

TEST_F(DeviceCache, RejectsTruncatedOrChangedFile) {
  cache.store("key", code);
  const std::string stored = content();
  for (std::size_t length = 0; length < stored.size(); ++length) {
    write(stored.substr(0, length));
    EXPECT_EQ(cache.find("key"), std::nullopt) << length << " bytes of it";
  }
  for (std::size_t i = 0; i < stored.size(); ++i) {
    std::string changed = stored;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    write(changed);
    EXPECT_EQ(cache.find("key"), std::nullopt) << "byte " << i;
  }
  write(stored + "x");
  EXPECT_EQ(cache.find("key"), std::nullopt);
  cache.store("key", code);
  EXPECT_EQ(cache.find("key"), code) << "a bad file is replaced";
}

TEST_F(DeviceCache, RejectsFileWritableByOthers) {
  cache.store("key", code);
  for (const mode_t mode : {0620, 0602}) {
    ASSERT_EQ(::chmod(file().c_str(), mode), 0);
    EXPECT_EQ(cache.find("key"), std::nullopt);
  }
  ASSERT_EQ(::chmod(file().c_str(), 0600), 0);
  EXPECT_EQ(cache.find("key"), code);
  const std::string own = file();
  const std::string elsewhere = folder.path("elsewhere");
  std::filesystem::rename(own, elsewhere);
  std::filesystem::create_symlink(elsewhere, own);
  EXPECT_EQ(cache.find("key"), std::nullopt);
}

TEST_F(DeviceCache, WorksWithoutFolder) {
  const device_cache none{""};
  none.store("key", code);
  EXPECT_EQ(none.find("key"), std::nullopt);
  const device_cache nowhere{folder.file("file", "is no folder") + "/x"};
  nowhere.store("key", code);
  EXPECT_EQ(nowhere.find("key"), std::nullopt);
}

TEST_F(DeviceCache, BelongsToTheUser) {
  {
    const test::environment_variable set("XDG_CACHE_HOME", "/somewhere");
    EXPECT_EQ(device_cache::folder_of_user(), "/somewhere/tandem/kernels");
  }
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  const test::environment_variable relative("XDG_CACHE_HOME", "somewhere");
  if (home.starts_with('/')) {
    EXPECT_EQ(device_cache::folder_of_user(), home + "/.cache/tandem/kernels");
  } else {
    EXPECT_EQ(device_cache::folder_of_user(), "");
  }
}

}  // namespace
}  // namespace tandem::detail
