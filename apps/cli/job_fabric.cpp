#include "cli/job_fabric.hpp"

#include <tandem/channels/rails.hpp>
#include <tandem/channels/shm.hpp>
#include <tandem/channels/tcp.hpp>
#include <utility>

namespace tandem::cli {

std::vector<std::string_view> fabric_kinds() {
  return {"tcp", "shm", "rails"};
}

asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::string kind,
                                                     std::shared_ptr<store> meeting,
                                                     settings engine) {
  if (kind == "shm") return shm::make_fabric(std::move(meeting), std::move(engine));
  if (kind == "rails") return rails::make_fabric(std::move(meeting), std::move(engine));
  return tcp::make_fabric(std::move(meeting), std::move(engine));
}

}  // namespace tandem::cli
