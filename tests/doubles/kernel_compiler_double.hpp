#pragma once

#include <string>
#include <tandem/detail/kernel_compiler.hpp>
#include <vector>

namespace tandem::test {

/// A simulated kernel compiler whose output is a text: the names of the kernels that the last line
/// of the source requests. While it lives, `find_kernel_compiler` returns it for both vendors. One
/// at a time.
class kernel_compiler_double {
 public:
  kernel_compiler_double();
  ~kernel_compiler_double();
  kernel_compiler_double(const kernel_compiler_double&) = delete;
  kernel_compiler_double& operator=(const kernel_compiler_double&) = delete;

  /// All later compilations fail, with this log.
  void fail(std::string log);
  /// Changes its version.
  void set_version(int major, int minor);
  /// The options of all compilations so far, with a space before each.
  const std::vector<std::string>& compiled() const;
  /// Programs that are not destroyed.
  int open() const;
};

}  // namespace tandem::test
