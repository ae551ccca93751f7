#pragma once

#include <string>
#include <tandem/collectives.hpp>
#include <vector>

namespace tandem::test {

/// One call of every operation by every algorithm, with its own data: for tests of failures in the
/// middle of a call.
class every_call {
 public:
  static int count();
  static std::string name(int which);
  /// The name as part of a test name.
  static std::string test_name(int which);
  /// False for ranks that only send: they need not notice the loss.
  static bool waits_for(int which, int lost, int ranks);

  asio::awaitable<void> make(communicator& among, int which);

 private:
  std::vector<float> data_, all_;
};

}  // namespace tandem::test
