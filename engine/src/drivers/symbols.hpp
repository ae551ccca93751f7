#pragma once

#include <dlfcn.h>

#include <string>

namespace tandem::detail {

/// Looks up functions by name and remembers the first required one that is missing.
class symbols {
 public:
  explicit symbols(void* in) : in_(in) {}
  template <class Function>
  void find(Function*& into, const char* name) {
    find_optional(into, name);
    if (into == nullptr && missing_.empty()) missing_ = name;
  }
  template <class Function>
  void find_optional(Function*& into, const char* name) {
    into = reinterpret_cast<Function*>(::dlsym(in_, name));
  }
  const std::string& missing() const noexcept { return missing_; }

 private:
  void* in_;
  std::string missing_;
};

}  // namespace tandem::detail
