#include "doubles/hip/compiler.hpp"

#include <string>
#include <vector>

#include "doubles/hip/translation.hpp"

namespace tandem::test::translation {
namespace {

using detail::kernel_compiler;

const kernel_compiler* compiler() {
  std::string why;
  return detail::find_kernel_compiler(memory_kind::cuda, why);
}

/// The real architecture of the first device.
std::string own_architecture() {
  const detail::cuda* const in = driver();
  cu::device of = 0;
  int major = 9;
  int minor = 0;
  if (in != nullptr && in->device_get(&of, 0) == cu::success) {
    in->device_attribute(&major, cu::compute_capability_major, of);
    in->device_attribute(&minor, cu::compute_capability_minor, of);
  }
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

}  // namespace

std::vector<std::string> options_in_cuda(const std::vector<std::string>& each,
                                         const std::string& architecture) {
  std::vector<std::string> all{"--gpu-architecture=" + architecture,
                               "--device-as-default-execution-space"};
  for (const std::string& option : each) {
    if (option.starts_with("--offload-arch=") || option.starts_with("-O")) continue;
    if (option == "-ffp-contract=off") {
      all.push_back("--fmad=false");
    } else {
      all.push_back(option.starts_with("-std=") ? "-" + option : option);
    }
  }
  return all;
}

}  // namespace tandem::test::translation

using namespace tandem::test::translation;
using tandem::detail::kernel_compiler;

namespace {

constexpr kernel_compiler::result no_compiler = 11;  // HIPRTC_ERROR_INTERNAL_ERROR

}  // namespace

kernel_compiler::result hiprtcVersion(int* major, int* minor) {
  const kernel_compiler* const in = compiler();
  return in == nullptr ? no_compiler : in->version(major, minor);
}

const char* hiprtcGetErrorString(kernel_compiler::result of) {
  const kernel_compiler* const in = compiler();
  return in == nullptr ? "HIPRTC_ERROR_INTERNAL_ERROR: no NVRTC here" : in->error_string(of);
}

kernel_compiler::result hiprtcCreateProgram(kernel_compiler::program* into, const char* source,
                                            const char* name, int headers,
                                            const char* const* header_sources,
                                            const char* const* header_names) {
  const kernel_compiler* const in = compiler();
  return in == nullptr ? no_compiler
                       : in->create(into, source, name, headers, header_sources, header_names);
}

kernel_compiler::result hiprtcCompileProgram(kernel_compiler::program which, int options,
                                             const char* const* each) {
  const std::vector<std::string> mine = options_in_cuda({each, each + options}, own_architecture());
  std::vector<const char*> all;
  for (const std::string& option : mine) all.push_back(option.c_str());
  return compiler()->compile(which, static_cast<int>(all.size()), all.data());
}

kernel_compiler::result hiprtcGetProgramLogSize(kernel_compiler::program of, std::size_t* into) {
  return compiler()->log_bytes(of, into);
}

kernel_compiler::result hiprtcGetProgramLog(kernel_compiler::program of, char* into) {
  return compiler()->log(of, into);
}

kernel_compiler::result hiprtcGetCodeSize(kernel_compiler::program of, std::size_t* into) {
  return compiler()->code_bytes(of, into);
}

kernel_compiler::result hiprtcGetCode(kernel_compiler::program of, char* into) {
  return compiler()->code(of, into);
}

kernel_compiler::result hiprtcDestroyProgram(kernel_compiler::program* which) {
  const kernel_compiler* const in = compiler();
  return in == nullptr ? no_compiler : in->destroy(which);
}
