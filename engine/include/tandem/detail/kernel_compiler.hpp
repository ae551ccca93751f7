#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem::detail {

/// What compiles kernels from source: NVRTC or hipRTC, whose functions differ in their names only.
/// Nothing of them needs a device.
struct kernel_compiler {
  using result = int;  ///< 0: done
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

/// The compiler for devices of a kind, opened when first asked for and never closed; null where it
/// is missing or lacks a function: `why` says so and what to do. One that the process has loaded
/// already is taken first; then what the loader finds; then what lies beside the vendor's libraries
/// that the process has loaded, as in Python's wheels. Any thread. @pre `of` is not `host`.
const kernel_compiler* find_kernel_compiler(memory_kind of, std::string& why);

/// From now on `find_kernel_compiler` gives this one; null: the machine's own again. For tests. Any
/// thread.
void replace_kernel_compiler(memory_kind of, const kernel_compiler* by) noexcept;

/// Folders in which the compiler may lie beside what a process has mapped, without duplicates.
/// @param maps  as /proc/self/maps
std::vector<std::string> folders_of_vendor(std::string_view maps);

}  // namespace tandem::detail
