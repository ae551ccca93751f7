#include "doubles/hip/hip_on_cuda.hpp"

#include <mutex>
#include <optional>
#include <string_view>

namespace tandem::test {
namespace {

namespace amd = detail::amd;
using detail::hip;

struct planned {
  int calls_until = 0;
  amd::result with = amd::success;
};
std::mutex mutex;
std::map<std::string, planned, std::less<>> failures;

std::optional<amd::result> failure_of(std::string_view function) {
  const std::lock_guard lock(mutex);
  const auto at = failures.find(function);
  if (at == failures.end() || --at->second.calls_until > 0) return std::nullopt;
  const amd::result with = at->second.with;
  failures.erase(at);
  return function.starts_with("hsa") ? with : translation::keep_own(with);  // HSA has no last error
}

/// Calls the function, unless a failure is injected.
template <auto Function, class Name>
struct may_fail;
template <class... Arguments, amd::result (*Function)(Arguments...), class Name>
struct may_fail<Function, Name> {
  static amd::result call(Arguments... arguments) {
    if (const std::optional<amd::result> with = failure_of(Name::text)) return *with;
    return Function(arguments...);
  }
};
template <const char* (*Function)(amd::result), class Name>
struct may_fail<Function, Name> {
  static const char* call(amd::result of) { return Function(of); }
};

#define TANDEM_FUNCTION(member, name)               \
  struct name_of_##name {                           \
    static constexpr std::string_view text = #name; \
  };
#define TANDEM_OPTIONAL_FUNCTION(member, name) TANDEM_FUNCTION(member, name)
#include "drivers/hip_functions.inc"
#define TANDEM_FUNCTION(member, name)               \
  struct name_of_##name {                           \
    static constexpr std::string_view text = #name; \
  };
#define TANDEM_OPTIONAL_FUNCTION(member, name) TANDEM_FUNCTION(member, name)
#include "drivers/hsa_functions.inc"

hip translated() {
  hip made{};
#define TANDEM_FUNCTION(member, name) made.member = may_fail<&name, name_of_##name>::call;
#define TANDEM_OPTIONAL_FUNCTION(member, name) TANDEM_FUNCTION(member, name)
#include "drivers/hip_functions.inc"
#define TANDEM_FUNCTION(member, name) made.below.member = may_fail<&name, name_of_##name>::call;
#define TANDEM_OPTIONAL_FUNCTION(member, name) TANDEM_FUNCTION(member, name)
#include "drivers/hsa_functions.inc"
  return made;
}

}  // namespace

hip_on_cuda::hip_on_cuda(options as) : table_(translated()) {
  translation::profile() = std::move(as);
  translation::flush_register() = 0;
  detail::replace_hip(&table_);
}

hip_on_cuda::~hip_on_cuda() {
  detail::replace_hip(nullptr);
  const std::lock_guard lock(mutex);
  failures.clear();
  translation::profile() = {};
}

void hip_on_cuda::fail(const std::string& function, int at_call, amd::result with) {
  const std::lock_guard lock(mutex);
  failures[function] = {at_call, with};
}

}  // namespace tandem::test
