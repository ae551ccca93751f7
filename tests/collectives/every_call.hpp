#pragma once

#include <string>
#include <tandem/collectives.hpp>
#include <vector>

namespace tandem::test {

/// One call of every operation by every algorithm, with data of its own: for tests of what goes
/// wrong in the middle of it.
class every_call {
 public:
  static int count();
  static std::string name(int which);
  /// The same as a part of a test's name.
  static std::string test_name(int which);
  /// False where this rank gets nothing but sends, so that nobody need hear of its end.
  static bool waits_for(int which, int lost, int ranks);

  asio::awaitable<void> make(communicator& among, int which);

 private:
  std::vector<float> data_, all_;
};

}  // namespace tandem::test
