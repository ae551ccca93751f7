// Text for the trainer: what is read, in which order, and which sequences a step uses.
#include "data.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <tandem/error.hpp>

namespace tandem::train {
namespace {

namespace fs = std::filesystem;

class data : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tandem-data-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& content) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  static std::string text_of(const corpus& read) { return {read.bytes.begin(), read.bytes.end()}; }
  static std::string refusal(const fs::path& from) {
    try {
      load_corpus(from);
      return "accepted";
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::bad_input);
      return failure.what();
    }
  }

  fs::path folder_;
};

TEST_F(data, files_of_a_folder_are_joined_in_path_order) {
  write("b", "two ");
  write("a", "one ");
  write("sub/c", "three");
  EXPECT_EQ(text_of(load_corpus(folder_)), "one two three");
}

TEST_F(data, symlink_duplicates_and_hidden_files_are_skipped) {
  write("GPL-3", "text");
  fs::create_symlink("GPL-3", folder_ / "GPL");
  fs::create_symlink("nowhere", folder_ / "broken");
  write(".hidden", "no");
  write(".git/config", "no");
  const corpus read = load_corpus(folder_);
  EXPECT_EQ(text_of(read), "text");
  EXPECT_EQ(read.files, std::vector<std::string>{(folder_ / "GPL-3").string()});
}

TEST_F(data, single_file_is_read_completely) {
  std::string every(256 * 300, '\0');
  std::iota(every.begin(), every.end(), '\0');
  const corpus read = load_corpus(write("bytes", every));
  EXPECT_EQ(text_of(read), every);
  EXPECT_NE(read.checksum, load_corpus(write("other", every + "x")).checksum);
}

TEST_F(data, bad_input_is_refused_in_one_line_naming_it) {
  const std::string advice = "; name a readable file or folder with --data";
  EXPECT_EQ(refusal(folder_ / "none"),
            (folder_ / "none").string() + ": No such file or directory" + advice);
  EXPECT_EQ(refusal(folder_), folder_.string() + ": the folder holds no file" + advice);
  const fs::path empty = write("empty", "");
  EXPECT_EQ(refusal(empty),
            empty.string() + ": the text is empty, so there is nothing to train on" + advice);
  EXPECT_EQ(refusal("/dev/null"), "/dev/null: neither a file nor a folder" + advice);
}

TEST_F(data, unreadable_file_is_refused) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads every file";
  const fs::path closed = write("closed", "text");
  ASSERT_EQ(chmod(closed.c_str(), 0), 0);
  EXPECT_EQ(refusal(closed),
            closed.string() + ": Permission denied; name a readable file or folder with --data");
}

TEST_F(data, text_shorter_than_a_sequence_is_refused) {
  const corpus read = load_corpus(write("short", "12345678"));
  EXPECT_NO_THROW(require_sequence(read, 7));
  EXPECT_THROW(require_sequence(read, 8), error);
  std::vector<std::uint8_t> inputs(8), targets(8);
  EXPECT_THROW(sample_sequence(read, 1, 0, 0, inputs, targets), error);
}

TEST_F(data, targets_follow_inputs_and_samples_depend_on_key_only) {
  std::string counting(5000, '\0');
  for (std::size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<char>(i % 251);
  const corpus read = load_corpus(write("counting", counting));
  std::set<std::uint8_t> first_tokens;
  for (std::uint64_t sequence = 0; sequence < 64; ++sequence) {
    std::vector<std::uint8_t> inputs(32), targets(32), again(32), again_targets(32);
    sample_sequence(read, 7, 3, sequence, inputs, targets);
    for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(targets[i], (inputs[i] + 1) % 251);
    sample_sequence(read, 7, 3, sequence, again, again_targets);
    EXPECT_EQ(inputs, again);
    first_tokens.insert(inputs[0]);
  }
  EXPECT_GT(first_tokens.size(), 40U) << "sequences of a step start at different positions";
}

TEST_F(data, last_byte_can_be_a_target) {
  const corpus read = load_corpus(write("five", "abcde"));
  std::set<std::uint8_t> last_targets;
  std::vector<std::uint8_t> inputs(3), targets(3);
  for (std::uint64_t step = 0; step < 64; ++step) {
    sample_sequence(read, 1, step, 0, inputs, targets);
    last_targets.insert(targets[2]);
  }
  EXPECT_EQ(last_targets, (std::set<std::uint8_t>{'d', 'e'}));
}

}  // namespace
}  // namespace tandem::train
