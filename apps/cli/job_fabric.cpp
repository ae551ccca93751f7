#include "cli/job_fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <tandem/channels.hpp>
#include <tandem/detail/trust.hpp>
#include <tandem/error.hpp>
#include <tandem/plan.hpp>
#include <tandem/store.hpp>
#include <utility>

namespace tandem::cli {
namespace {

/// Ranks that join later than this are ended by their launcher, or time out.
constexpr std::chrono::seconds report_limit{5};
/// The time for the others has passed already, and what did not answer may be needed again.
constexpr std::chrono::seconds report_limit_after_timeout{1};

asio::awaitable<void> report_to_job(launch_info who, settings engine, const error& reason) {
  const auto limit = reason.code() == errc::timed_out ? report_limit_after_timeout : report_limit;
  engine.meet_timeout = std::min<std::chrono::milliseconds>(engine.meet_timeout, limit);
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
  if (!engine.profile.empty()) facts::load(engine.profile, engine.meet_timeout);
  trust::check_credentials(engine);
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
  error_context outer;
  outer.rank = who.rank;
  const error reason = with_context(*failed, outer);
  asio::io_context context(1);
  // A failure to report is less important than the error to be reported.
  const auto ignore = [](const std::exception_ptr&) {};
  asio::co_spawn(context, report_to_job(who, engine, reason), ignore);
  context.run();
  throw error(reason);
}

}  // namespace tandem::cli
