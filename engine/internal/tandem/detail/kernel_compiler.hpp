#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem::detail {

/// Run-time kernel compiler: NVRTC or hipRTC, whose functions differ in their names only. None of
/// them needs a device.
struct kernel_compiler {
  using result = int;  ///< 0: success
  using program = struct program_of*;

  result (*version)(int* major, int* minor);
  const char* (*error_string)(result of);
  result (*create)(program* into, const char* source, const char* name, int headers,
                   const char* const* header_sources, const char* const* header_names);
  /// Takes seconds.
  result (*compile)(program which, int options, const char* const* each);
  result (*log_bytes)(program of, std::size_t* into);  ///< with the terminating zero
  result (*log)(program of, char* into);
  result (*code_bytes)(program of, std::size_t* into);
  result (*code)(program of, char* into);
  result (*destroy)(program* which);
};

/// The compiler for devices of a kind, loaded on first use and never unloaded; null if it is
/// missing or lacks a function: `why` then has the reason and what to do. Search order: a library
/// that the process has already loaded, the dynamic loader's path, the folders of the vendor
/// libraries that the process has loaded (as with Python wheels). Any thread. @pre `of` is not
/// `host`.
const kernel_compiler* find_kernel_compiler(memory_kind of, std::string& why);

/// Makes `find_kernel_compiler` return `by`; null: the machine's own again. For tests. Any thread.
void replace_kernel_compiler(memory_kind of, const kernel_compiler* by) noexcept;

/// Folders of mapped vendor libraries that may also contain the compiler, without duplicates.
/// @param maps  content of /proc/self/maps
std::vector<std::string> folders_of_vendor(std::string_view maps);

}  // namespace tandem::detail
