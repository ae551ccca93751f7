// Files that Tandem writes for itself: cuts and changes are found, and a file is replaced whole.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tandem/detail/checked_file.hpp>
#include <tandem/detail/file_replacement.hpp>

#include "support/temporary_folder.hpp"

namespace tandem::detail {
namespace {

constexpr checked_file format("profile", 3, true);
constexpr checked_file strict("kernels", 3);

std::string why_not(const checked_file& of, std::string_view file) {
  std::string why;
  return of.open(file, why) ? "" : why;
}

TEST(CheckedFile, ReturnsWhatWasSealed) {
  for (const std::string& content : {std::string(), std::string("a\nb\n"), std::string(9, '\0')}) {
    std::string why;
    const std::string file = format.seal(content);
    EXPECT_EQ(format.open(file, why), content);
    EXPECT_EQ(why, "");
  }
  EXPECT_EQ(format.seal("123456789"), "tandem profile 3: 9 bytes, crc32c e3069283\n123456789");
}

TEST(CheckedFile, RefusesEveryCut) {
  const std::string file = format.seal("within.latency_ns 700\n");
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_NE(why_not(format, file.substr(0, length)), "") << length << " bytes of it";
  }
  EXPECT_EQ(why_not(format, file.substr(0, file.size() - 4)), "it is cut: 18 of 22 bytes are left");
  EXPECT_EQ(why_not(format, file + "x"), "it has 1 bytes more than were written");
}

TEST(CheckedFile, RefusesEveryChangedBit) {
  const std::string file = format.seal("within.latency_ns 700\n");
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string changed = file;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(why_not(format, changed), "") << "bit " << bit;
  }
  std::string changed = file;
  changed[changed.find("700")] = '8';
  EXPECT_EQ(why_not(format, changed), "it has been changed: its checksum differs");
}

TEST(CheckedFile, SaysWhatAnotherFileIs) {
  EXPECT_EQ(why_not(format, strict.seal("x")), "its first line is not that of a profile");
  EXPECT_EQ(why_not(format, "host a\n"), "its first line is not that of a profile");
  EXPECT_EQ(why_not(format, std::string(1000, 'x')),
            "its first line is cut, or not that of a profile");
  EXPECT_EQ(why_not(format, checked_file("profile", 4).seal("x")),
            "it is of version 4; this program reads version 3");
  EXPECT_EQ(why_not(format, "tandem profile 3: many bytes\nx"), "its first line is damaged");
  EXPECT_EQ(why_not(format, "tandem profile 3: 99999999999999999999 bytes, crc32c 00000000\n"),
            "its first line is damaged");
}

TEST(CheckedFile, EditedFilesAreNotCheckedWhereTheyMayBeEdited) {
  std::string why;
  EXPECT_EQ(format.edited_line(), "tandem profile 3: edited");
  EXPECT_EQ(format.open("tandem profile 3: edited\nhost a", why), "host a");
  EXPECT_EQ(format.open("tandem profile 3: edited\r\nhost a", why), "host a");
  EXPECT_EQ(why_not(format, "tandem profile 2: edited\nhost a"),
            "it is of version 2; this program reads version 3");
  EXPECT_EQ(why_not(strict, "tandem kernels 3: edited\nx"), "its first line is damaged");
}

class FileReplacement : public testing::Test {
 protected:
  std::string content(const std::string& name) const {
    std::ifstream in(folder_.path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path("")), {});
  }

  const test::temporary_folder folder_;
};

TEST_F(FileReplacement, ReplacesTheFileAtCommit) {
  const std::string file = folder_.file("file", "old");
  {
    file_replacement made(file, 0600);
    ASSERT_EQ(made.failure(), 0);
    EXPECT_EQ(made.write("ne"), 0);
    EXPECT_EQ(made.write("w"), 0);
    EXPECT_EQ(content("file"), "old");
    EXPECT_EQ(files(), 2);
    EXPECT_EQ(made.commit(), 0);
  }
  EXPECT_EQ(content("file"), "new");
  EXPECT_EQ(files(), 1);
  struct stat found {};
  ASSERT_EQ(::stat(file.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0600u);
}

TEST_F(FileReplacement, LeavesTheFileWithoutCommit) {
  const std::string file = folder_.file("file", "old");
  {
    file_replacement made(file, 0600);
    EXPECT_EQ(made.write("new"), 0);
  }
  EXPECT_EQ(content("file"), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(FileReplacement, ReportsWhatFails) {
  file_replacement nowhere(folder_.path("none/file"), 0600);
  EXPECT_EQ(nowhere.failure(), ENOENT);
  EXPECT_EQ(nowhere.write("x"), ENOENT);
  EXPECT_EQ(nowhere.commit(), ENOENT);
  std::filesystem::create_directory(folder_.path("folder"));
  file_replacement over_folder(folder_.path("folder"), 0600);
  EXPECT_EQ(over_folder.write("x"), 0);
  EXPECT_EQ(over_folder.commit(), EISDIR);
}

}  // namespace
}  // namespace tandem::detail
