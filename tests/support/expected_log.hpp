#pragma once

#include <string>

namespace tandem::test {

/// In every program that links this, a warning or an error in the log fails the running test,
/// unless the test expects a text that contains `words`. An expected text that is not logged fails
/// it, too.
void expect_log(const std::string& words);

}  // namespace tandem::test
