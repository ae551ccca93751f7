#include "vendor_library.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

namespace tandem::nccl_abi {
namespace {

namespace fs = std::filesystem;

std::atomic<const vendor_library*> opened_library{nullptr};

/// The file that this code is in.
fs::path own_file() {
  Dl_info found{};
  static const char here = 0;
  if (::dladdr(&here, &found) == 0 || found.dli_fname == nullptr) return {};
  std::error_code failed;
  return fs::canonical(found.dli_fname, failed);
}

/// Folders of libraries that this process has mapped and that come with a vendor's library:
/// PyTorch's own, and of the packages beside it.
std::vector<fs::path> folders_beside_torch() {
  std::vector<fs::path> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path == line.npos || line.find("/libtorch_") == line.npos) continue;
    const fs::path torch = fs::path(line.substr(path)).parent_path();
    found = {torch, torch.parent_path().parent_path() / "nvidia" / "nccl" / "lib"};
  }
  return found;
}

std::vector<fs::path> folders_to_search() {
  std::vector<fs::path> all = folders_beside_torch();
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(':'));
    if (!one.empty()) all.emplace_back(one);
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  for (const char* const usual :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib",
        "/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/opt/rocm/lib", "/usr/lib"}) {
    all.emplace_back(usual);
  }
  std::error_code failed;
  for (const char* const root : {"/usr/local/lib", "/usr/lib"}) {
    for (const auto& python : fs::directory_iterator(root, failed)) {
      if (!python.path().filename().string().starts_with("python3")) continue;
      for (const char* const packages : {"dist-packages", "site-packages"})
        all.push_back(python.path() / packages / "nvidia" / "nccl" / "lib");
    }
  }
  return all;
}

/// Empty: there is none; `why_none` says so then.
std::string find_file(memory_kind kind, std::string& why_none) {
  const char* const name = kind == memory_kind::hip ? "librccl.so.1" : "libnccl.so.2";
  const char* const given = std::getenv("TANDEM_VENDOR_NCCL");
  if (given != nullptr && *given != '\0') return given;
  const fs::path self = own_file();
  for (const fs::path& folder : folders_to_search()) {
    std::error_code failed;
    const fs::path file = fs::canonical(folder / name, failed);
    if (failed || file == self) continue;
    return file.string();
  }
  why_none = fmt::format("no {} beside PyTorch, in LD_LIBRARY_PATH or in the usual folders", name);
  return {};
}

template <class Function>
void find_optional(void* in, Function& into, const char* name) {
  into = reinterpret_cast<Function>(::dlsym(in, name));
}

/// A copy of a file in memory. @return a path; the file exists as long as the process
std::string copy_of(const std::string& path) {
  const int from = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int to = ::memfd_create("vendor-nccl", MFD_CLOEXEC);
  constexpr std::size_t at_once = std::size_t{1} << 30;
  ssize_t copied = from < 0 || to < 0 ? -1 : 1;
  while (copied > 0) copied = ::sendfile(to, from, nullptr, at_once);
  if (from >= 0) ::close(from);
  return copied < 0 ? std::string() : fmt::format("/proc/self/fd/{}", to);
}

/// The library's calls of its own functions have to reach those, not ours of the same names. A file
/// that the process has loaded already (PyTorch does) has been bound to ours, so a copy is loaded.
void* open_in_own_scope(const std::string& path, std::string& why_none) {
#ifdef __SANITIZE_ADDRESS__  // refuses RTLD_DEEPBIND
  constexpr int own_scope = 0;
#else
  constexpr int own_scope = RTLD_DEEPBIND;
#endif
  std::string file = path;
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) != nullptr) file = copy_of(path);
  void* const found = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | own_scope);
  const char* const message = found == nullptr ? ::dlerror() : nullptr;
  if (message != nullptr) why_none = fmt::format("{}: {}", path, message);
  return found;
}

vendor_library open_library(memory_kind kind) {
  vendor_library made;
  std::string why_none;
  const std::string path = find_file(kind, why_none);
  void* const opened = path.empty() ? nullptr : open_in_own_scope(path, why_none);
  detail::set_nccl(opened, why_none);
  made.base = detail::find_nccl(kind, made.text);
  if (made.base == nullptr || opened == nullptr) return made;
  made.text = path;
  find_optional(opened, made.finalize, "ncclCommFinalize");
  find_optional(opened, made.register_buffer, "ncclCommRegister");
  find_optional(opened, made.deregister, "ncclCommDeregister");
  find_optional(opened, made.register_window, "ncclCommWindowRegister");
  find_optional(opened, made.deregister_window, "ncclCommWindowDeregister");
  find_optional(opened, made.allocate, "ncclMemAlloc");
  find_optional(opened, made.free, "ncclMemFree");
  return made;
}

}  // namespace

const vendor_library& vendor_library_of(memory_kind kind) {
  static const vendor_library& only = [kind]() -> const vendor_library& {
    const auto& made = *new vendor_library(open_library(kind));
    if (made.base != nullptr) opened_library = &made;
    return made;
  }();
  return only;
}

const vendor_library* find_opened_library() noexcept {
  return opened_library;
}

}  // namespace tandem::nccl_abi
