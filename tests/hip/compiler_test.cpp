#include "doubles/hip/compiler.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem::test {
namespace {

using detail::kernel_compiler;

TEST(hip_compiler, translates_options_from_nvrtc) {
  const std::vector<std::string> found = translation::options_in_cuda(
      {"--offload-arch=gfx942", "-std=c++17", "-O3", "-ffp-contract=off", "-w"}, "sm_90");
  const std::vector<std::string> expected{"--gpu-architecture=sm_90",
                                          "--device-as-default-execution-space", "--std=c++17",
                                          "--fmad=false", "-w"};
  EXPECT_EQ(found, expected);
}

/// As programs load it: up to ROCm 6, HIP's run-time library contains hipRTC.
TEST(hip_compiler, compiles_with_nvrtc_where_available) {
  ASSERT_NE(::dlopen(TANDEM_HIP_LIBRARY, RTLD_NOW | RTLD_LOCAL), nullptr) << ::dlerror();
  std::string why;
  const kernel_compiler* const found = detail::find_kernel_compiler(memory_kind::hip, why);
  ASSERT_NE(found, nullptr) << why;
  int major = 0;
  int minor = 0;
  if (found->version(&major, &minor) != 0) GTEST_SKIP() << "no NVRTC on the loader's path";
  kernel_compiler::program made = nullptr;
  const char* const source = "extern \"C\" __global__ void set(int* into) { *into = 7; }";
  ASSERT_EQ(found->create(&made, source, "set", 0, nullptr, nullptr), 0);
  const char* const option = "--offload-arch=gfx942";
  ASSERT_EQ(found->compile(made, 1, &option), 0);
  std::size_t bytes = 0;
  ASSERT_EQ(found->code_bytes(made, &bytes), 0);
  EXPECT_GT(bytes, 0u);
  EXPECT_EQ(found->destroy(&made), 0);
}

}  // namespace
}  // namespace tandem::test
