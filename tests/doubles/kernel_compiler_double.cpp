#include "doubles/kernel_compiler_double.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "reduce/device_source.hpp"
#include "streams/stream_kernels.hpp"

namespace tandem::test {
namespace {

using detail::kernel_compiler;

struct program_in_memory {
  std::string source, code, log;
};

struct state {
  std::mutex mutex;  ///< of `compiled`: ranks in threads of a process may compile at once
  std::vector<std::string> compiled;
  std::string fails_with;
  int major = 12, minor = 4;
  std::atomic<int> open = 0;
};
state* now = nullptr;

program_in_memory& of(kernel_compiler::program handle) {
  return *reinterpret_cast<program_in_memory*>(handle);
}

/// "TANDEM_KERNELS_OF_FLOATS(float32, float)" -> "float32"
std::string type_in(const std::string& source) {
  const std::size_t from = source.rfind("TANDEM_KERNELS_OF_");
  const std::size_t begin = source.find('(', from) + 1;
  return source.substr(begin, source.find(',', begin) - begin);
}

std::string names_of(const std::string& type_name) {
  std::string names;
  for (int type = 0; bytes_of(static_cast<data_type>(type)) != 0; ++type) {
    if (name(static_cast<data_type>(type)) != type_name) continue;
    for (std::size_t work = 0; work < detail::kernel_work_count; ++work) {
      const auto which = static_cast<detail::kernel_work>(work);
      names += detail::kernel_name(static_cast<data_type>(type), which) + "\n";
      names += detail::exchange_kernel_name(static_cast<data_type>(type), which) + "\n";
    }
  }
  return names;
}

const kernel_compiler functions{
    .version = [](int* major, int* minor) -> int {
      *major = now->major;
      *minor = now->minor;
      return 0;
    },
    .error_string = [](int code) -> const char* { return code == 6 ? "COMPILATION" : "OTHER"; },
    .create = [](kernel_compiler::program* into, const char* source, const char*, int,
                 const char* const*, const char* const*) -> int {
      *into = reinterpret_cast<kernel_compiler::program>(new program_in_memory{source, {}, {}});
      ++now->open;
      return 0;
    },
    .compile = [](kernel_compiler::program which, int count, const char* const* options) -> int {
      std::string all;
      for (int i = 0; i < count; ++i) all += std::string(" ") + options[i];
      {
        const std::lock_guard lock(now->mutex);
        now->compiled.push_back(all);
      }
      of(which).log = now->fails_with;
      if (!now->fails_with.empty()) return 6;
      const auto& names = detail::stream_kernels::names;
      const bool is_of_streams = of(which).source.find(names[0]) != std::string::npos;
      std::string all_names;
      for (const char* const each : names) all_names += std::string(each) + "\n";
      of(which).code = is_of_streams ? all_names : names_of(type_in(of(which).source));
      return 0;
    },
    .log_bytes = [](kernel_compiler::program which, std::size_t* into) -> int {
      *into = of(which).log.size() + 1;
      return 0;
    },
    .log = [](kernel_compiler::program which, char* into) -> int {
      std::strcpy(into, of(which).log.c_str());
      return 0;
    },
    .code_bytes = [](kernel_compiler::program which, std::size_t* into) -> int {
      *into = of(which).code.size() + 1;
      return 0;
    },
    .code = [](kernel_compiler::program which, char* into) -> int {
      std::strcpy(into, of(which).code.c_str());
      return 0;
    },
    .destroy = [](kernel_compiler::program* which) -> int {
      delete &of(*which);
      --now->open;
      return 0;
    }};

}  // namespace

kernel_compiler_double::kernel_compiler_double() {
  now = new state;
  for (const memory_kind kind : {memory_kind::cuda, memory_kind::hip}) {
    detail::replace_kernel_compiler(kind, &functions);
  }
}

kernel_compiler_double::~kernel_compiler_double() {
  for (const memory_kind kind : {memory_kind::cuda, memory_kind::hip}) {
    detail::replace_kernel_compiler(kind, nullptr);
  }
  EXPECT_EQ(now->open, 0) << "programs that were not destroyed";
  delete std::exchange(now, nullptr);
}

void kernel_compiler_double::fail(std::string log) {
  now->fails_with = std::move(log);
}

void kernel_compiler_double::set_version(int major, int minor) {
  now->major = major;
  now->minor = minor;
}

const std::vector<std::string>& kernel_compiler_double::compiled() const {
  return now->compiled;
}

int kernel_compiler_double::open() const {
  return now->open;
}

}  // namespace tandem::test
