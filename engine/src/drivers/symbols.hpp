#pragma once

#include <dlfcn.h>

#include <span>
#include <string>
#include <string_view>

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

/// Opens a vendor's library. A copy that the process has loaded already is used, under whatever
/// name and from whatever folder, as a second copy would have streams and memory of its own; else
/// the first of `names` that the loader finds. Never closed: such libraries leave handlers behind.
/// @param stem  "libamdhip64", by which /proc/self/maps is searched
/// @param failure  where null is returned: what was missing
void* open_library(std::span<const char* const> names, std::string_view stem, std::string& failure);

/// The first file in these lines of /proc/self/maps whose name is `stem`, then a dot or a dash,
/// then anything ("libamdhip64-0f3c.so"); empty: none.
std::string mapped_library(std::string_view maps, std::string_view stem);

}  // namespace tandem::detail
