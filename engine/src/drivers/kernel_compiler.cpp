#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <span>
#include <tandem/detail/kernel_compiler.hpp>

#include "drivers/opening.hpp"
#include "drivers/symbols.hpp"

namespace tandem::detail {
namespace {

/// Names of one vendor's libraries and functions.
struct vendor_names {
  std::span<const char* const> libraries;  ///< newest first
  const char* prefix;                      ///< of function names
  const char* code;                        ///< the compiled code, in function names
  const char* install_advice;
};

constexpr const char* nvrtc_libraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                           "libnvrtc.so"};
// Up to ROCm 6 the runtime library exports the functions, too.
constexpr const char* hiprtc_libraries[] = {"libhiprtc.so.7",   "libhiprtc.so.6",
                                            "libhiprtc.so.5",   "libhiprtc.so",
                                            "libamdhip64.so.6", "libamdhip64.so.5"};
constexpr vendor_names nvrtc{nvrtc_libraries, "nvrtc", "CUBIN",
                             "install NVRTC 11.2 or newer (CUDA's toolkit, or pip install "
                             "nvidia-cuda-nvrtc-cu12 and its folder in LD_LIBRARY_PATH)"};
constexpr vendor_names hiprtc{
    hiprtc_libraries, "hiprtc", "Code",
    "install hipRTC of ROCm 5 or newer (package hip-runtime-amd, or the folder of ROCm's "
    "libraries in LD_LIBRARY_PATH)"};

std::vector<std::string> mapped_vendor_folders() {
  std::ifstream file("/proc/self/maps");
  const std::string maps(std::istreambuf_iterator<char>(file), {});
  return folders_of_vendor(maps);
}

void* open_first(std::span<const char* const> libraries, const std::string& folder, int flags) {
  for (const char* const name : libraries) {
    const std::string path = folder.empty() ? name : folder + "/" + name;
    if (void* const found = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flags)) return found;
  }
  return nullptr;
}

void* open_any(std::span<const char* const> libraries) {
  if (void* const found = open_first(libraries, {}, RTLD_NOLOAD)) return found;
  if (void* const found = open_first(libraries, {}, 0)) return found;
  const std::vector<std::string> folders = mapped_vendor_folders();
  for (const std::string& folder : folders) {
    if (void* const found = open_first(libraries, folder, 0)) return found;
  }
  return nullptr;
}

struct opened_compiler {
  kernel_compiler functions{};
  std::string why;  ///< empty: available

  opened_compiler(opening_step& step, const vendor_names& by) {
    step = "loading its library";
    void* const found = open_any(by.libraries);
    if (found == nullptr) {
      why = fmt::format("no kernel compiler here: there is no {}; {}", by.libraries[0],
                        by.install_advice);
      return;
    }
    symbols in(found);
    const auto find = [&in, &by](auto& into, const std::string& name) {
      in.find(into, (by.prefix + name).c_str());
    };
    find(functions.version, "Version");
    find(functions.error_string, "GetErrorString");
    find(functions.create, "CreateProgram");
    find(functions.compile, "CompileProgram");
    find(functions.log_bytes, "GetProgramLogSize");
    find(functions.log, "GetProgramLog");
    find(functions.code_bytes, fmt::format("Get{}Size", by.code));
    find(functions.code, fmt::format("Get{}", by.code));
    find(functions.destroy, "DestroyProgram");
    if (in.missing().empty()) return;
    why = fmt::format("no kernel compiler here: {} has no {}; {}", by.prefix, in.missing(),
                      by.install_advice);
  }
};

std::atomic<const kernel_compiler*> replacements[2] = {nullptr, nullptr};

std::atomic<const kernel_compiler*>& replacement(memory_kind of) noexcept {
  return replacements[of == memory_kind::hip ? 1 : 0];
}

const opened_compiler* loaded_compiler(memory_kind of, std::string& why) {
  static auto& cuda = *new opening<opened_compiler>;
  static auto& hip = *new opening<opened_compiler>;
  const bool is_hip = of == memory_kind::hip;
  return (is_hip ? hip : cuda).get("kernel compiler", why, is_hip ? hiprtc : nvrtc);
}

/// The path in a line of /proc/self/maps: from its first slash on.
std::string_view path_in(std::string_view line) noexcept {
  const std::size_t at = line.find('/');
  return at == line.npos ? std::string_view() : line.substr(at);
}

/// The path up to and including `word`; empty where it does not contain it.
std::string_view up_to(std::string_view path, std::string_view word) noexcept {
  const std::size_t at = path.find(word);
  return at == path.npos ? std::string_view() : path.substr(0, at + word.size());
}

}  // namespace

std::vector<std::string> folders_of_vendor(std::string_view maps) {
  std::vector<std::string> folders;
  const auto add = [&folders](std::string folder) {
    if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(std::move(folder));
  };
  const auto add_wheels = [&add](std::string_view packages) {
    for (const char* const wheel : {"cu13", "cuda_nvrtc"}) {
      add(fmt::format("{}nvidia/{}/lib", packages, wheel));
    }
  };
  while (!maps.empty()) {
    const std::size_t end = std::min(maps.find('\n'), maps.size());
    const std::string_view path = path_in(maps.substr(0, end));
    maps.remove_prefix(std::min(end + 1, maps.size()));
    const std::size_t last = path.rfind('/');
    if (last == path.npos) continue;
    const std::string_view file = path.substr(last + 1);
    for (const std::string_view vendor :
         {"libcudart", "libcublas", "libnccl", "libtorch", "libc10", "libamdhip64", "librccl"}) {
      if (!file.starts_with(vendor)) continue;
      add(std::string(path.substr(0, last)));
      std::string_view packages = up_to(path, "-packages/");
      if (!packages.empty()) add_wheels(packages);
    }
  }
  return folders;
}

const kernel_compiler* find_kernel_compiler(memory_kind of, std::string& why) {
  if (const kernel_compiler* const by = replacement(of).load()) return by;
  const opened_compiler* const found = loaded_compiler(of, why);
  return found != nullptr ? &found->functions : nullptr;
}

void replace_kernel_compiler(memory_kind of, const kernel_compiler* by) noexcept {
  replacement(of).store(by);
}

}  // namespace tandem::detail
