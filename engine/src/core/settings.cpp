#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <tandem/detail/stderr_sink.hpp>
#include <tandem/error.hpp>
#include <tandem/settings.hpp>
#include <utility>
#include <vector>

namespace tandem {
namespace {

constexpr auto secret_variable = "TANDEM_SECRET";

/// Variables of launchers and of the back-end for PyTorch, which are not options; `TANDEM_RUN_` is
/// a prefix of several.
constexpr std::array<std::string_view, 12> other_variables{
    "TANDEM_RANK",       "TANDEM_SIZE",  "TANDEM_LOCAL_RANK", "TANDEM_LOCAL_SIZE",
    "TANDEM_RENDEZVOUS", "TANDEM_JOB",   secret_variable,     "TANDEM_TAKE_OVER",
    "TANDEM_LIBRARY",    "TANDEM_CACHE", "TANDEM_NCCL_HOST",  "TANDEM_VENDOR_NCCL"};

bool known_variable(std::string_view variable) {
  return variable.starts_with("TANDEM_RUN_") ||
         std::find(other_variables.begin(), other_variables.end(), variable) !=
             other_variables.end() ||
         std::any_of(option_table().begin(), option_table().end(),
                     [variable](const option& o) { return o.environment == variable; });
}

void warn_of_unknown_variables() {
  std::vector<std::string_view> candidates(other_variables.begin(), other_variables.end());
  for (const option& o : option_table()) candidates.push_back(o.environment);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view variable = text.substr(0, text.find('='));
    if (!variable.starts_with("TANDEM_") || known_variable(variable)) continue;
    const std::string_view near = nearest(variable, candidates);
    detail::warn_program("settings",
                         fmt::format("{}: no such option{}", variable,
                                     near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
}

/// Sets one option; an error names it as it was given: "TANDEM_SPIN_US=abc: ...".
void set_named(settings& into, const option& which, std::string_view prefix,
               std::string_view value) {
  try {
    which.set(into, value);
  } catch (const error& e) {
    throw error(errc::bad_option, fmt::format("{}={}", prefix, e.context().detail),
                e.context().advice);
  }
}

void check_trust(const settings& s) {
  const bool some =
      !s.certificate_file.empty() || !s.key_file.empty() || !s.authorities_file.empty();
  if (some && !s.secret_file.empty()) {
    throw error(errc::bad_option, "both a secret file and certificates are given",
                "use either --secret-file or the three certificate options");
  }
  if (!some) return;
  const std::array<std::pair<std::string_view, const std::string*>, 3> three{
      {{"certificate-file", &s.certificate_file},
       {"key-file", &s.key_file},
       {"authorities-file", &s.authorities_file}}};
  for (const auto& [name, file] : three) {
    if (!file->empty()) continue;
    throw error(errc::bad_option, fmt::format("certificates without --{}", name),
                "give --certificate-file, --key-file and --authorities-file");
  }
}

}  // namespace

settings settings::from_environment(settings base) {
  for (const option& o : option_table()) {
    const char* const value = std::getenv(std::string(o.environment).c_str());
    if (value != nullptr && *value != '\0') set_named(base, o, o.environment, value);
  }
  const char* const secret_text = std::getenv(secret_variable);
  if (secret_text != nullptr && *secret_text != '\0') {
    base.job_secret = secret(std::string_view(secret_text));
  }
  base.check();
  warn_of_unknown_variables();
  return base;
}

settings settings::from_environment() {
  return from_environment(settings{});
}

void settings::set(std::string_view option_name, std::string_view value) {
  std::vector<std::string_view> names;
  for (const option& o : option_table()) {
    if (o.name == option_name) return set_named(*this, o, fmt::format("--{}", o.name), value);
    names.push_back(o.name);
  }
  const std::string_view near = nearest(option_name, names);
  throw error(errc::bad_option, fmt::format("--{}: no such option", option_name),
              near.empty() ? "" : fmt::format("did you mean --{}?", near));
}

void settings::check() const {
  if (eager_bytes > chunk_bytes) {
    throw error(errc::bad_option,
                fmt::format("eager-bytes {} is more than chunk-bytes {}", format_bytes(eager_bytes),
                            format_bytes(chunk_bytes)),
                "lower --eager-bytes or raise --chunk-bytes");
  }
  if (credit_bytes / 4 < eager_bytes) {
    throw error(errc::bad_option,
                fmt::format("credit-bytes {} is less than four times eager-bytes {}",
                            format_bytes(credit_bytes), format_bytes(eager_bytes)),
                "raise --credit-bytes or lower --eager-bytes");
  }
  check_trust(*this);
}

}  // namespace tandem
