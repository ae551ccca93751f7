#include "cli/job_fabric.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <exception>
#include <optional>
#include <tandem/channels.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/detail/trust.hpp>
#include <tandem/error.hpp>
#include <tandem/plan.hpp>
#include <tandem/store.hpp>
#include <utility>

namespace tandem::cli {
namespace {

/// Ranks that join later than this are ended by their launcher, or time out.
constexpr std::chrono::seconds report_limit{5};

asio::awaitable<void> report_to_job(launch_info who, settings engine, const error& reason) {
  engine.meet_timeout = std::min<std::chrono::milliseconds>(engine.meet_timeout, report_limit);
  const std::shared_ptr<store> meeting = co_await store::meet(who, engine);
  meeting->report(reason);
}

}  // namespace

std::vector<std::string_view> fabric_kinds() {
  return {"tcp", "shm", "rails", "mixed"};
}

std::string fabric_kind_for(const std::string& asked, bool given, const settings& engine) {
  if (engine.rails.empty() || asked == "rails" || asked == "mixed") return asked;
  if (!given) return "rails";
  throw error(errc::bad_option, fmt::format("--channel={}: does not support rails", asked),
              "leave out --channel or --rails, or use --channel mixed");
}

asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::string kind,
                                                     std::shared_ptr<store> meeting,
                                                     settings engine) {
  if (kind == "shm") return shm::make_fabric(std::move(meeting), std::move(engine));
  if (kind == "mixed") return mixed::make_fabric(std::move(meeting), std::move(engine));
  if (kind == "rails") return rails::make_fabric(std::move(meeting), std::move(engine));
  return tcp::make_fabric(std::move(meeting), std::move(engine));
}

void check_inputs(const settings& engine) {
  if (!engine.profile.empty()) facts::load(engine.profile);
  const secret readable = trust::job_secret(engine);
  for (const auto& [name, file] :
       {std::pair("certificate", engine.certificate_file), std::pair("key", engine.key_file),
        std::pair("authorities", engine.authorities_file)}) {
    if (file.empty() || ::access(file.c_str(), R_OK) == 0) continue;
    throw error(errc::bad_input,
                fmt::format("{} file {}: {}", name, file, detail::errno_text(errno)));
  }
}

void check_as_rank(const launch_info& who, const settings& engine,
                   const std::function<void()>& checks) {
  std::optional<error> failed;
  try {
    checks();
    return;
  } catch (const error& reason) {
    failed = reason;
  }
  asio::io_context context(1);
  // A failure to report is less important than the error to be reported.
  const auto ignore = [](const std::exception_ptr&) {};
  asio::co_spawn(context, report_to_job(who, engine, *failed), ignore);
  context.run();
  throw error(*failed);
}

}  // namespace tandem::cli
