#pragma once

#include <string>
#include <tandem/detail/kernel_compiler.hpp>
#include <vector>

namespace tandem::test {

/// A compiler of kernels whose code is a text: the names of the kernels that the source's last line
/// asks for. While it lives, `find_kernel_compiler` gives it for both vendors. One at a time.
class kernel_compiler_double {
 public:
  kernel_compiler_double();
  ~kernel_compiler_double();
  kernel_compiler_double(const kernel_compiler_double&) = delete;
  kernel_compiler_double& operator=(const kernel_compiler_double&) = delete;

  /// Every compilation from now on fails, with this log.
  void fail(std::string log);
  /// From now on it is another version.
  void become(int major, int minor);
  /// The options of every compilation so far, with a space before each.
  const std::vector<std::string>& compiled() const;
  /// Programs that nobody has destroyed.
  int open() const;
};

}  // namespace tandem::test
