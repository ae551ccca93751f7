#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tandem/detail/kernel_compiler.hpp>
#include <tandem/error.hpp>
#include <vector>

#include "device_cache.hpp"
#include "device_source.hpp"

namespace tandem::detail {
namespace {

/// Disables contraction of multiplications and additions, which would round differently from the
/// processor; otherwise the defaults of both compilers preserve the bits.
std::vector<std::string> options_for(memory_kind kind, const std::string& architecture) {
  if (kind == memory_kind::hip) {
    return {"--offload-arch=" + architecture, "-std=c++17", "-O3", "-ffp-contract=off", "-w"};
  }
  std::vector<std::string> options{"--gpu-architecture=" + architecture, "--std=c++17",
                                   "--fmad=false", "-w", "--device-as-default-execution-space"};
  if (pairs_exchanges(kind)) options.emplace_back("--define-macro=TANDEM_PAIRED_EXCHANGES");
  return options;
}

/// One compilation.
class program {
 public:
  program(const kernel_compiler& by, const std::string& source) : by_(by) {
    must(by_.create(&handle_, source.c_str(), "tandem_kernels", 0, nullptr, nullptr), "load");
  }
  ~program() { by_.destroy(&handle_); }
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  void compile(const std::vector<std::string>& options) {
    std::vector<const char*> each;
    for (const std::string& option : options) each.push_back(option.c_str());
    must(by_.compile(handle_, static_cast<int>(each.size()), each.data()), "compile");
  }
  std::string code() {
    std::size_t bytes = 0;
    must(by_.code_bytes(handle_, &bytes), "return");
    std::string code(bytes, '\0');
    must(by_.code(handle_, code.data()), "return");
    return code;
  }

 private:
  void must(kernel_compiler::result status, std::string_view verb) {
    if (status == 0) return;
    int major = 0, minor = 0;
    by_.version(&major, &minor);
    throw error(errc::device_failed,
                fmt::format("kernel compiler {}.{} failed to {} the kernels: {}: {}", major, minor,
                            verb, by_.error_string(status), log()),
                "the compiler may be too old or too new for the device: put the folder of "
                "another version into LD_LIBRARY_PATH");
  }
  /// The first lines of the compiler's log; the first error usually explains the others.
  std::string log() {
    std::size_t bytes = 0;
    if (handle_ == nullptr || by_.log_bytes(handle_, &bytes) != 0 || bytes < 2) return "no log";
    std::string text(bytes, '\0');
    if (by_.log(handle_, text.data()) != 0) return "no log";
    text.resize(std::min<std::size_t>(text.find('\0'), 400));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    std::ranges::replace(text, '\n', ' ');
    return text;
  }

  const kernel_compiler& by_;
  kernel_compiler::program handle_ = nullptr;
};

const kernel_compiler& compiler_for(memory_kind kind) {
  std::string why;
  if (const kernel_compiler* const found = find_kernel_compiler(kind, why)) return *found;
  throw error(errc::device_failed, why);
}

}  // namespace

std::string compile_kernels(const std::string& source, memory_kind kind,
                            const std::string& architecture) {
  const kernel_compiler& by = compiler_for(kind);
  const std::vector<std::string> options = options_for(kind, architecture);
  int major = 0, minor = 0;
  by.version(&major, &minor);
  const std::string key =
      fmt::format("{} {}.{} {}\n{}", name(kind), major, minor, fmt::join(options, " "), source);
  const device_cache cache(device_cache::folder_of_user());
  if (std::optional<std::string> found = cache.find(key)) return *std::move(found);
  program compilation(by, source);
  compilation.compile(options);
  std::string code = compilation.code();
  cache.store(key, code);
  return code;
}

}  // namespace tandem::detail
