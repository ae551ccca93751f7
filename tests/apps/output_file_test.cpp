// Files that a command writes at its end: checked before, written atomically, never lost.
#include "cli/output_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tandem/error.hpp>

#include "support/temporary_folder.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Text of the error; empty if none was thrown.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::bad_input);
    return refused.what();
  }
  return {};
}

class OutputFile : public testing::Test {
 protected:
  output_file at(const std::string& name) const { return {"--json", (folder_ / name).string()}; }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  const test::temporary_folder made_;
  const fs::path folder_ = fs::path(made_.path(".")).parent_path();
};

TEST_F(OutputFile, WithoutAPathNothingIsWritten) {
  output_file none("--json", "");
  EXPECT_FALSE(none.is_enabled());
  none.check();
  none.write("x");
  none.append("x");
  none.finish();
  output_file().write("x");
}

TEST_F(OutputFile, CheckLeavesFileAndFolderUnchanged) {
  at("new").check();
  EXPECT_EQ(files(), 0);
  std::ofstream(folder_ / "old") << "old";
  at("old").check(100'000);
  EXPECT_EQ(content(folder_ / "old"), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFile, ReplacesFileAtomicallyAndKeepsMode) {
  std::ofstream(folder_ / "page") << "a longer text than the new one";
  ASSERT_EQ(::chmod((folder_ / "page").c_str(), 0640), 0);
  at("page").write("new");
  EXPECT_EQ(content(folder_ / "page"), "new");
  EXPECT_EQ(files(), 1);
  struct stat found {};
  ASSERT_EQ(::stat((folder_ / "page").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0640u);
}

TEST_F(OutputFile, NewFileHonorsUmask) {
  const mode_t before = ::umask(027);
  at("page").write("new");
  ::umask(before);
  struct stat found {};
  ASSERT_EQ(::stat((folder_ / "page").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0640u);
}

TEST_F(OutputFile, FollowsAndKeepsSymlinks) {
  fs::create_directory(folder_ / "there");
  fs::create_symlink("there/page", folder_ / "link");
  at("link").check();
  at("link").write("one");
  at("link").write("two");
  EXPECT_EQ(content(folder_ / "there" / "page"), "two");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  fs::create_symlink("circle", folder_ / "circle");
  EXPECT_NE(refusal([&] { at("circle").check(); }).find("symbolic links"), std::string::npos);
}

TEST_F(OutputFile, ErrorNamesOptionFileAndReason) {
  const std::string missing = refusal([&] { at("none/page").check(); });
  EXPECT_NE(missing.find("--json " + (folder_ / "none/page").string() +
                         ": cannot be written: No such file or directory"),
            std::string::npos)
      << missing;
  fs::create_directory(folder_ / "sub");
  EXPECT_NE(refusal([&] { at("sub").check(); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(refusal([&] { at("sub/").check(); }).find("Is a directory"), std::string::npos);
}

TEST_F(OutputFile, UnwritableFolderIsRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere; faults.full_disks covers this";
  ASSERT_EQ(::chmod(folder_.c_str(), 0555), 0);
  const std::string refused = refusal([&] { at("page").check(); });
  ::chmod(folder_.c_str(), 0755);
  EXPECT_NE(refused.find("Permission denied"), std::string::npos) << refused;
}

TEST_F(OutputFile, IsSavedElsewhereWhenFolderIsRemoved) {
  fs::create_directory(folder_ / "gone");
  fs::create_directory(folder_ / "temporary");
  const output_file page("--report", (folder_ / "gone" / "page").string());
  page.check();
  fs::remove_all(folder_ / "gone");
  ::setenv("TMPDIR", (folder_ / "temporary").c_str(), 1);
  const std::string lost = refusal([&] { page.write("hours of work"); });
  ::unsetenv("TMPDIR");
  const std::string mark = "the content was saved as ";
  ASSERT_NE(lost.find(mark), std::string::npos) << lost;
  const std::string kept = lost.substr(lost.find(mark) + mark.size());
  EXPECT_EQ(fs::path(kept).parent_path(), folder_ / "temporary");
  EXPECT_EQ(content(kept), "hours of work");
}

TEST_F(OutputFile, DeviceFileIsNotReplaced) {
  const output_file null("--report", "/dev/null");
  null.check();
  null.write("x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  fs::create_symlink("/dev/full", folder_ / "full");
  ::setenv("TMPDIR", folder_.c_str(), 1);
  const std::string lost = refusal([&] { at("full").write("x"); });
  ::unsetenv("TMPDIR");
  EXPECT_NE(lost.find("No space left on device; the content was saved as " + folder_.string()),
            std::string::npos)
      << lost;
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(OutputFile, PipeWithoutReaderDoesNotBlock) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  at("pipe").check();
  ::setenv("TMPDIR", folder_.c_str(), 1);
  EXPECT_NE(refusal([&] { at("pipe").write("x"); }).find("saved as"), std::string::npos);
  ::unsetenv("TMPDIR");
}

TEST_F(OutputFile, OwnDescriptorsAreWrittenDirectly) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  output_file lines("--json", "/dev/fd/" + std::to_string(ends[1]));
  lines.check();
  lines.append("one ");
  lines.append("two ");
  lines.finish();
  lines.write("three");
  ::close(ends[1]);
  char bytes[100];
  const ssize_t count = ::read(ends[0], bytes, sizeof bytes);
  ::close(ends[0]);
  EXPECT_EQ(std::string(bytes, count > 0 ? static_cast<std::size_t>(count) : 0), "one two three");
}

TEST_F(OutputFile, LinesReplaceOldContentAtTheEnd) {
  std::ofstream(folder_ / "lines") << "of an earlier run\n";
  output_file lines = at("lines");
  lines.check();
  EXPECT_EQ(content(folder_ / "lines"), "of an earlier run\n");
  lines.append("one\n");
  EXPECT_EQ(content(folder_ / "lines"), "of an earlier run\n");
  EXPECT_EQ(content(folder_ / "lines.part"), "one\n") << "at once, in case of a kill";
  lines.append("two\n");
  lines.finish();
  EXPECT_EQ(content(folder_ / "lines"), "one\ntwo\n");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFile, UnfinishedLinesLeaveTheFileUnchanged) {
  std::ofstream(folder_ / "lines") << "of an earlier run\n";
  {
    output_file lines = at("lines");
    lines.append("one\n");
  }
  EXPECT_EQ(content(folder_ / "lines"), "of an earlier run\n");
  EXPECT_EQ(content(folder_ / "lines.part"), "one\n");
  output_file next = at("lines");
  next.append("two\n");
  next.finish();
  EXPECT_EQ(content(folder_ / "lines"), "two\n");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFile, PartIsNoLinkToAnotherFile) {
  std::ofstream(folder_ / "other") << "other";
  fs::create_symlink("other", folder_ / "lines.part");
  output_file lines = at("lines");
  lines.append("one\n");
  lines.finish();
  EXPECT_EQ(content(folder_ / "lines"), "one\n");
  EXPECT_EQ(content(folder_ / "other"), "other");
}

TEST_F(OutputFile, FailedLinesAreSavedElsewhere) {
  fs::create_directory(folder_ / "gone");
  output_file lines = at("gone/lines");
  lines.check();
  fs::remove_all(folder_ / "gone");
  lines.append("one\n");
  lines.append("two\n");
  ::setenv("TMPDIR", folder_.c_str(), 1);
  const std::string lost = refusal([&] { lines.finish(); });
  ::unsetenv("TMPDIR");
  const std::string mark = "the content was saved as ";
  ASSERT_NE(lost.find(mark), std::string::npos) << lost;
  EXPECT_EQ(content(lost.substr(lost.find(mark) + mark.size())), "one\ntwo\n");
}

}  // namespace
}  // namespace tandem::cli
