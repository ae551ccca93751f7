// The kernel source for devices and its compilation. The Kernels suite tests the results.
#include "reduce/device_source.hpp"

#include <gtest/gtest.h>

#include <tandem/error.hpp>

#include "collectives/slow.hpp"
#include "doubles/kernel_compiler_double.hpp"
#include "reduce/device_cache.hpp"
#include "reduce/device_kernels.hpp"
#include "streams/stream_kernels.hpp"
#include "support/device_kernels.hpp"
#include "support/environment_variable.hpp"
#include "support/temporary_folder.hpp"

namespace tandem::detail {
namespace {

using test::all_types;

/// Does not use the user's cache.
struct own_cache {
  test::temporary_folder folder;
  test::environment_variable variable{"XDG_CACHE_HOME", folder.path("").c_str()};
};

TEST(DeviceSource, HasNoIncludes) {
  EXPECT_EQ(device_text::stream_kernels.find("#include"), std::string_view::npos);
  for (const data_type type : all_types) {
    const std::string source = device_source(type);
    EXPECT_EQ(source.find("#include"), source.npos);
    EXPECT_EQ(source.find("#pragma once"), source.npos);
    EXPECT_NE(source.find("narrow_number"), source.npos);
  }
}

TEST(DeviceSource, HasKernelForEveryDefinedCombination) {
  std::size_t count = 0;
  for (const data_type type : all_types) {
    for (std::size_t i = 0; i < kernel_work_count; ++i) {
      const auto work = static_cast<kernel_work>(i);
      const bool is_there = test::kernels_on_host().contains(kernel_name(type, work));
      EXPECT_EQ(is_there, has_kernel(type, work)) << kernel_name(type, work);
      count += is_there ? 1 : 0;
    }
  }
  EXPECT_EQ(count, test::kernels_on_host().size());
  EXPECT_EQ(kernel_name(data_type::float8_e4m3, kernel_work::minimum),
            "tandem_minimum_float8_e4m3");
}

TEST(DeviceSource, OldDevicesDoNotExchange) {
  for (const char* const which : {"sm_52", "sm_61"}) {
    EXPECT_FALSE(has_exchange_kernels(memory_kind::cuda, which)) << which;
  }
  for (const char* const which : {"sm_70", "sm_90", "sm_90a", "sm_100"}) {
    EXPECT_TRUE(has_exchange_kernels(memory_kind::cuda, which)) << which;
  }
  EXPECT_TRUE(has_exchange_kernels(memory_kind::hip, "gfx60a"));
}

/// Uses the machine's compiler, which needs no device.
TEST(DeviceSource, CompilesForNvidia) {
  std::string why;
  const kernel_compiler* const found = find_kernel_compiler(memory_kind::cuda, why);
  if (found == nullptr) GTEST_SKIP() << why;
  const own_cache apart;
  int major = 0, minor = 0;
  ASSERT_EQ(found->version(&major, &minor), 0);
  const std::string architecture = major < 12 ? "sm_80" : "sm_90";
  for (const data_type type : all_types) {
    SCOPED_TRACE(name(type));
    const std::string code = compile_kernels(device_source(type), memory_kind::cuda, architecture);
    ASSERT_EQ(code.substr(0, 4), "\177ELF");
    for (std::size_t i = 0; i < kernel_work_count; ++i) {
      const auto work = static_cast<kernel_work>(i);
      ASSERT_EQ(code.find(kernel_name(type, work)) != code.npos, has_kernel(type, work));
      ASSERT_EQ(code.find(exchange_kernel_name(type, work)) != code.npos,
                has_exchange_kernel(type, work));
    }
  }
  const std::string of_streams =
      compile_kernels(std::string(device_text::stream_kernels), memory_kind::cuda, architecture);
  for (const char* const each : stream_kernels::names) {
    EXPECT_NE(of_streams.find(each), of_streams.npos) << each;
  }
}

TEST(DeviceCompilation, HappensOncePerKey) {
  const own_cache apart;
  test::kernel_compiler_double compiler;
  const std::string first =
      compile_kernels(device_source(data_type::int8), memory_kind::cuda, "sm_90");
  EXPECT_NE(first.find("tandem_band_int8"), first.npos);
  EXPECT_EQ(compile_kernels(device_source(data_type::int8), memory_kind::cuda, "sm_90"), first);
  EXPECT_EQ(compiler.compiled().size(), 1u);
  compile_kernels(device_source(data_type::int8), memory_kind::cuda, "sm_80");
  compile_kernels(device_source(data_type::int16), memory_kind::cuda, "sm_90");
  compile_kernels(device_source(data_type::int8), memory_kind::hip, "gfx942");
  EXPECT_EQ(compiler.compiled().size(), 4u);
  compiler.set_version(13, 0);
  compile_kernels(device_source(data_type::int8), memory_kind::cuda, "sm_90");
  EXPECT_EQ(compiler.compiled().size(), 5u);
}

TEST(DeviceCompilation, DisablesFusedMultiplyAdd) {
  const own_cache apart;
  test::kernel_compiler_double compiler;
  compile_kernels(device_source(data_type::float32), memory_kind::cuda, "sm_90");
  compile_kernels(device_source(data_type::float32), memory_kind::hip, "gfx942");
  ASSERT_EQ(compiler.compiled().size(), 2u);
  EXPECT_NE(compiler.compiled()[0].find(" --fmad=false"), std::string::npos);
  EXPECT_NE(compiler.compiled()[0].find(" --gpu-architecture=sm_90"), std::string::npos);
  EXPECT_NE(compiler.compiled()[1].find(" -ffp-contract=off"), std::string::npos);
  EXPECT_NE(compiler.compiled()[1].find(" --offload-arch=gfx942"), std::string::npos);
}

TEST(DeviceCompilation, FailureQuotesCompilerOutput) {
  const own_cache apart;
  test::kernel_compiler_double compiler;
  compiler.fail("line 1: what is sm_999?\n");
  try {
    compile_kernels(device_source(data_type::float32), memory_kind::cuda, "sm_999");
    FAIL() << "it was compiled";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::device_failed);
    EXPECT_NE(std::string(e.what()).find("kernel compiler 12.4"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("what is sm_999?"), std::string::npos) << e.what();
  }
  compiler.fail({});
  EXPECT_NE(compile_kernels(device_source(data_type::float32), memory_kind::cuda, "sm_999"), "")
      << "a failure was kept";
}

}  // namespace
}  // namespace tandem::detail
