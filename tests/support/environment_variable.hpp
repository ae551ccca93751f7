#pragma once

#include <cstdlib>

namespace tandem::test {

/// Sets an environment variable for its own lifetime.
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
