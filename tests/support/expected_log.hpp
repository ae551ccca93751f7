#pragma once

#include <string>

namespace tandem::test {

/// In every program that links this, a warning or an error in the log fails the test that is
/// running, unless the test has said that one with these words will come. A word that never came
/// fails it too.
void expect_log(const std::string& words);

}  // namespace tandem::test
