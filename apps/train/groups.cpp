#include "groups.hpp"

#include <tandem/communicator.hpp>
#include <utility>

namespace tandem::train {
namespace {

asio::awaitable<communicator> make_world(const settings& engine, fabric& over) {
  if (engine.profile.empty()) co_return communicator(over, engine);
  co_return co_await make_communicator(over, engine);
}

}  // namespace

asio::awaitable<groups> make_groups(const job& what, fabric& over) {
  const rank_location at = what.who.at(over.rank());
  communicator world = co_await make_world(what.requested.engine, over);
  std::unique_ptr<communicator> pipeline = co_await world.split(at.replica, at.stage);
  std::unique_ptr<communicator> replicas = co_await world.split(at.stage, at.replica);
  co_return groups{std::move(world), std::move(pipeline), std::move(replicas)};
}

}  // namespace tandem::train
