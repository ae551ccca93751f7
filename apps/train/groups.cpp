#include "groups.hpp"

#include <tandem/collectives/agree.hpp>
#include <utility>

namespace tandem::train {
namespace {

asio::awaitable<communicator> make_everyone(const settings& engine, fabric& over) {
  if (engine.profile.empty()) co_return communicator(over, engine);
  co_return co_await make_communicator(over, engine);
}

}  // namespace

asio::awaitable<groups> make_groups(const job& what, fabric& over) {
  const place at = what.who.at(over.rank());
  communicator everyone = co_await make_everyone(what.wanted.engine, over);
  std::unique_ptr<communicator> pipeline = co_await everyone.split(at.replica, at.stage);
  std::unique_ptr<communicator> replicas = co_await everyone.split(at.stage, at.replica);
  co_return groups{std::move(everyone), std::move(pipeline), std::move(replicas)};
}

}  // namespace tandem::train
