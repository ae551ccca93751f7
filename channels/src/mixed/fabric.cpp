#include "mixed/fabric.hpp"

#include <boost/asio/this_coro.hpp>
#include <utility>

#include "fabric/fabric_handle.hpp"
#include "mixed/composite_fabric.hpp"
#include "transports/rails/mesh.hpp"
#include "transports/shm/mesh.hpp"
#include "transports/tcp/mesh.hpp"

namespace tandem::mixed {
namespace {

std::shared_ptr<transport::fabric_base> make_intra_host(std::shared_ptr<store> part,
                                                        settings options,
                                                        asio::any_io_executor executor) {
  return std::make_shared<shm::mesh>(std::move(part), std::move(options), std::move(executor));
}

std::shared_ptr<transport::fabric_base> make_inter_host(std::shared_ptr<store> part,
                                                        settings options,
                                                        asio::any_io_executor executor) {
  if (options.rails.empty()) {
    return std::make_shared<tcp::mesh>(std::move(part), std::move(options), std::move(executor));
  }
  return std::make_shared<rails::mesh>(std::move(part), std::move(options), std::move(executor));
}

}  // namespace

asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options,
                                                     intra_host_maker intra_host) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const std::vector<std::shared_ptr<store>> parts = split_store(meeting, executor, 2);
  const auto made =
      std::make_shared<composite_fabric>(meeting, options, intra_host(parts[0], options, executor),
                                         make_inter_host(parts[1], options, executor));
  std::unique_ptr<fabric> handle = co_await transport::open_fabric(made);
  co_return handle;
}

asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options) {
  return make_fabric(std::move(meeting), std::move(options), make_intra_host);
}

}  // namespace tandem::mixed
