#include "cli/job_fabric.hpp"

#include <fmt/format.h>

#include <tandem/channels.hpp>
#include <tandem/error.hpp>
#include <utility>

namespace tandem::cli {

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

}  // namespace tandem::cli
