#pragma once

#include <string>
#include <tandem/detail/kernel_compiler.hpp>
#include <type_traits>
#include <vector>

// hipRTC's functions by their real names, implemented on NVRTC.

#pragma GCC visibility push(default)
extern "C" {
#define TANDEM_FUNCTION(member, name) \
  std::remove_pointer_t<decltype(tandem::detail::kernel_compiler::member)> name;
TANDEM_FUNCTION(version, hiprtcVersion)
TANDEM_FUNCTION(error_string, hiprtcGetErrorString)
TANDEM_FUNCTION(create, hiprtcCreateProgram)
TANDEM_FUNCTION(compile, hiprtcCompileProgram)
TANDEM_FUNCTION(log_bytes, hiprtcGetProgramLogSize)
TANDEM_FUNCTION(log, hiprtcGetProgramLog)
TANDEM_FUNCTION(code_bytes, hiprtcGetCodeSize)
TANDEM_FUNCTION(code, hiprtcGetCode)
TANDEM_FUNCTION(destroy, hiprtcDestroyProgram)
#undef TANDEM_FUNCTION
}
#pragma GCC visibility pop

namespace tandem::test::translation {

/// Translates options of hipRTC to NVRTC, with code for `architecture`.
/// @param each  hipRTC's options
std::vector<std::string> options_in_cuda(const std::vector<std::string>& each,
                                         const std::string& architecture);

}  // namespace tandem::test::translation
