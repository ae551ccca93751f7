#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <tandem/detail/hip.hpp>

#include "drivers/symbols.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace tandem::test {
namespace {

using detail::kfd_open_error;
using detail::mapped_library;
using detail::no_device_reason;
using detail::open_library;

TEST(hip_driver, explains_missing_devices) {
  const std::string message = "hipInit returned hipErrorNoDevice";
  for (const int failure : {0, ENOENT, EACCES, EPERM, EIO}) {
    EXPECT_TRUE(no_device_reason(message, failure).starts_with("no HIP here: " + message + "; "));
  }
  EXPECT_TRUE(contains_text(no_device_reason(message, 0), "HIP_VISIBLE_DEVICES"));
  EXPECT_TRUE(contains_text(no_device_reason(message, ENOENT), "there is no /dev/kfd"));
  EXPECT_TRUE(contains_text(no_device_reason(message, ENOENT), "--device=/dev/kfd"));
  EXPECT_TRUE(contains_text(no_device_reason(message, EACCES), "usermod -aG render,video"));
  EXPECT_TRUE(contains_text(no_device_reason(message, EPERM), "--group-add render"));
  EXPECT_TRUE(contains_text(no_device_reason(message, EIO), "Input/output error"));
}

TEST(hip_driver, queries_the_kernel_driver) {
  EXPECT_EQ(kfd_open_error("/dev/null"), 0);
  EXPECT_EQ(kfd_open_error("/dev/null/kfd"), ENOTDIR);
  EXPECT_EQ(kfd_open_error("/dev/no such thing"), ENOENT);
}

/// This machine has either a device or a reason for none.
TEST(hip_driver, finds_a_device_or_a_reason) {
  std::string why;
  const detail::hip* const found = detail::find_hip(why);
  EXPECT_EQ(found == nullptr, !why.empty());
  if (found == nullptr) {
    EXPECT_TRUE(why.starts_with("no HIP here: ")) << why;
    EXPECT_TRUE(contains_text(why, "; ")) << "no advice: " << why;
  }
}

TEST(open_library, finds_library_in_proc_maps) {
  const char* const maps =
      "7f01-7f02 r--p 00000000 08:01 11    /opt/torch/lib/libamdhip64_helper.so\n"
      "7f02-7f03 rw-p 00000000 00:00 0     [heap]\n"
      "7f03-7f04 r-xp 00000000 08:01 12    /opt/torch/lib/libamdhip64-0f3c.so.6.2\n"
      "7f04-7f05 r-xp 00000000 08:01 13    /usr/lib/libamdhip64.so.6";
  EXPECT_EQ(mapped_library(maps, "libamdhip64"), "/opt/torch/lib/libamdhip64-0f3c.so.6.2");
  EXPECT_EQ(mapped_library(maps, "libcuda"), "");
  EXPECT_EQ(mapped_library("", "libamdhip64"), "");
  EXPECT_EQ(mapped_library("7f04-7f05 r-xp 0 08:01 13 /usr/lib/libamdhip64.so.6", "libamdhip64"),
            "/usr/lib/libamdhip64.so.6");
}

TEST(open_library, uses_library_already_loaded) {
  std::string failure;
  const std::array names{"libc.so.6"};
  EXPECT_NE(open_library(names, "libc", failure), nullptr);
}

/// As in PyTorch's wheels: under another name, in another folder.
TEST(open_library, uses_library_loaded_under_another_name) {
  const temporary_folder folder;
  const std::string path = folder.path("libtandem_renamed-0f3c.so.6");
  std::filesystem::copy_file(TANDEM_HIP_LIBRARY, path);
  const std::array names{"libtandem_renamed.so.6"};
  std::string failure;
  EXPECT_EQ(open_library(names, "libtandem_renamed", failure), nullptr);
  EXPECT_TRUE(contains_text(failure, "no libtandem_renamed.so.6")) << failure;
  void* const theirs = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(theirs, nullptr) << ::dlerror();
  void* const found = open_library(names, "libtandem_renamed", failure);
  EXPECT_EQ(found, theirs);
  EXPECT_NE(::dlsym(found, "hipInit"), nullptr);
  EXPECT_NE(::dlsym(found, "hsa_iterate_agents"), nullptr);
}

TEST(open_library, explains_unusable_library) {
  const temporary_folder folder;
  const std::string path = folder.file("libbroken.so", "no library at all");
  std::string failure;
  const std::array names{"libtandem_missing.so.1", path.c_str()};
  EXPECT_EQ(open_library(names, "libbroken", failure), nullptr);
  EXPECT_TRUE(contains_text(failure, "libbroken.so")) << failure;
  EXPECT_FALSE(contains_text(failure, "missing")) << failure;
}

}  // namespace
}  // namespace tandem::test
