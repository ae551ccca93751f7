#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <tandem/error.hpp>

#include "rank_environment.hpp"

namespace tandem::launcher {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders() {
  std::error_code failed;
  const fs::path here = fs::read_symlink("/proc/self/exe", failed).parent_path();
  const fs::path prefix = here.parent_path();
  std::vector<fs::path> all{here / "nccl", prefix / "lib" / "tandem", prefix / "lib64" / "tandem",
                            prefix / "lib" / "x86_64-linux-gnu" / "tandem",
                            prefix / "lib" / "aarch64-linux-gnu" / "tandem"};
  for (const auto& each : fs::directory_iterator(prefix / "lib", failed)) {
    if (!each.path().filename().string().starts_with("python3")) continue;
    for (const char* const packages : {"site-packages", "dist-packages"})
      all.push_back(each.path() / packages / "tandem" / "lib");
  }
  return all;
}

}  // namespace

std::vector<std::string> nccl_libraries() {
  const std::vector<fs::path> all = folders();
  for (const fs::path& folder : all) {
    const fs::path nccl = folder / "libtandem_nccl.so", rccl = folder / "libtandem_rccl.so";
    std::error_code failed;
    if (fs::exists(nccl, failed) && fs::exists(rccl, failed)) return {nccl.string(), rccl.string()};
  }
  std::vector<std::string> tried;
  std::ranges::transform(all, std::back_inserter(tried),
                         [](const fs::path& p) { return p.string(); });
  throw error(errc::bad_option,
              fmt::format("--nccl: libtandem_nccl.so is not in {}", fmt::join(tried, ", ")),
              "install Tandem with its apps, or set LD_PRELOAD to the file yourself");
}

void add_nccl(std::vector<std::pair<std::string, std::string>>& environment,
              const std::vector<std::string>& libraries) {
  std::string preload = fmt::format("{}", fmt::join(libraries, ":"));
  const char* const before = std::getenv("LD_PRELOAD");
  if (before != nullptr && *before != '\0') preload += fmt::format(":{}", before);
  environment.emplace_back("LD_PRELOAD", preload);
}

}  // namespace tandem::launcher
