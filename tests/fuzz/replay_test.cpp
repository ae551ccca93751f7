// Replays the fuzzers' corpus through the same targets in every build.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz/targets.hpp"

namespace tandem::fuzz {
namespace {

class corpus : public testing::TestWithParam<target> {};

TEST_P(corpus, replays_without_failure) {
  const target& one = GetParam();
  int inputs = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(TANDEM_CORPUS) / one.name)) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(in), {}};
    SCOPED_TRACE(file.path().filename().string());
    one.run(std::as_bytes(std::span(content)));
    // Truncated inputs as well: at every byte if there are few.
    const std::size_t step = content.size() / 64 + 1;
    for (std::size_t n = 0; n < content.size(); n += step) {
      one.run(std::as_bytes(std::span(content).first(n)));
    }
    ++inputs;
  }
  EXPECT_GE(inputs, 4) << "the corpus is missing";
}

INSTANTIATE_TEST_SUITE_P(fuzz, corpus, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& which) { return std::string(which.param.name); });

}  // namespace
}  // namespace tandem::fuzz
