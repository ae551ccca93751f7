#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "drivers/symbols.hpp"

namespace tandem::detail {
namespace {

void* in_process(std::span<const char* const> names, std::string_view stem) {
  for (const char* const name : names) {
    if (void* const found = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return found;
  }
  std::ifstream file("/proc/self/maps");
  const std::string maps(std::istreambuf_iterator<char>(file), {});
  const std::string path = mapped_library(maps, stem);
  return path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

/// True where the loader did not find the file itself; else one of its dependencies is missing.
bool is_not_found(std::string_view message, std::string_view name) noexcept {
  return message.starts_with(name) &&
         message.find("cannot open shared object file") != message.npos;
}

}  // namespace

void* open_library(std::span<const char* const> names, std::string_view stem,
                   std::string& failure) {
  if (void* const found = in_process(names, stem)) return found;
  failure.clear();
  for (const char* const name : names) {
    if (void* const found = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return found;
    const char* const message = ::dlerror();
    if (failure.empty() && message != nullptr && !is_not_found(message, name)) failure = message;
  }
  if (failure.empty()) failure = fmt::format("the loader finds no {}", fmt::join(names, ", no "));
  return nullptr;
}

std::string mapped_library(std::string_view maps, std::string_view stem) {
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(line.size() + 1, maps.size()));
    const std::size_t path = line.find('/');
    if (path == line.npos) continue;
    const std::string_view file = line.substr(line.rfind('/') + 1);
    if (file.size() > stem.size() && file.starts_with(stem) &&
        (file[stem.size()] == '.' || file[stem.size()] == '-')) {
      return std::string(line.substr(path));
    }
  }
  return {};
}

}  // namespace tandem::detail
