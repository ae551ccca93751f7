#include <gtest/gtest.h>

#include <tandem/detail/kernel_compiler.hpp>

namespace tandem::detail {
namespace {

TEST(KernelCompiler, IsSearchedNextToVendorLibraries) {
  const char* const maps =
      "55d0-55d1 r--p 00000000 fe:00 11  /usr/bin/python3.11\n"
      "7f00-7f01 r-xp 00000000 00:00 0  \n"
      "7f01-7f02 r-xp 00000000 00:00 0  [stack]\n"
      "7f02-7f03 r-xp 0 fe:00 12  /venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so\n"
      "7f03-7f04 r--p 0 fe:00 12  /venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so\n"
      "7f05-7f06 r--p 0 fe:00 13  /opt/cuda 12/lib64/libcudart.so.12\n"
      "7f07-7f08 r--p 0 fe:00 14  /opt/rocm/lib/libamdhip64.so.6";
  EXPECT_EQ(folders_of_vendor(maps),
            (std::vector<std::string>{"/venv/lib/python3.11/site-packages/torch/lib",
                                      "/venv/lib/python3.11/site-packages/nvidia/cu13/lib",
                                      "/venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib",
                                      "/opt/cuda 12/lib64", "/opt/rocm/lib"}));
}

TEST(KernelCompiler, IsSearchedNowhereElse) {
  EXPECT_TRUE(folders_of_vendor("").empty());
  EXPECT_TRUE(folders_of_vendor("\n\n7f00-7f01 r-xp 0 0 0 /lib/libc.so.6\n").empty());
}

TEST(KernelCompiler, IsFoundOrExplained) {
  for (const memory_kind kind : {memory_kind::cuda, memory_kind::hip}) {
    std::string why;
    const kernel_compiler* const found = find_kernel_compiler(kind, why);
    EXPECT_EQ(found == nullptr, !why.empty());
    if (found == nullptr) {
      EXPECT_NE(why.find("install"), why.npos) << why;
    }
  }
}

TEST(KernelCompiler, CanBeReplaced) {
  static const kernel_compiler other{};
  std::string why;
  const kernel_compiler* const own = find_kernel_compiler(memory_kind::cuda, why);
  replace_kernel_compiler(memory_kind::cuda, &other);
  EXPECT_EQ(find_kernel_compiler(memory_kind::cuda, why), &other);
  EXPECT_NE(find_kernel_compiler(memory_kind::hip, why), &other);
  replace_kernel_compiler(memory_kind::cuda, nullptr);
  const kernel_compiler* const again = find_kernel_compiler(memory_kind::cuda, why);
  EXPECT_NE(again, &other);
  // A library that loads slowly may have come in between.
  if (own != nullptr) {
    EXPECT_EQ(again, own);
  }
}

}  // namespace
}  // namespace tandem::detail
