#pragma once

#include <cstdlib>

namespace tandem::test {

/// Sets a variable of the process for as long as it lives.
class environment_variable {
 public:
  environment_variable(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);
  }
  ~environment_variable() { ::unsetenv(name_); }
  environment_variable(const environment_variable&) = delete;
  environment_variable& operator=(const environment_variable&) = delete;

 private:
  const char* name_;
};

}  // namespace tandem::test
