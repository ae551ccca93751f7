#include "support/fabric_maker.hpp"

#include <boost/asio/this_coro.hpp>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>

#include "support/reserved_port.hpp"

namespace tandem::test {
namespace {

namespace asio = boost::asio;
using asio::awaitable;

awaitable<void> join_job(launch_info who, settings options, fabric_maker make, fabrics& all) {
  std::shared_ptr<store> rendezvous = co_await store::meet(who, options);
  std::unique_ptr<fabric> made = co_await make(std::move(rendezvous), options);
  all[static_cast<std::size_t>(who.rank)] = std::move(made);
}

awaitable<fabrics> over_tcp(int size, settings options) {
  return make_job(size, std::move(options));
}

awaitable<fabrics> over_rails(int size, settings options) {
  return make_job(size, on_two_rails(std::move(options)));
}

awaitable<fabrics> over_sealed_rails(int size, settings options) {
  options.encrypt = true;
  return make_job(size, on_two_rails(std::move(options)));
}

awaitable<fabrics> over_shm(int size, settings options) {
  options.shm_single_copy = single_copy::off;
  return make_job(size, std::move(options), shm::make_fabric);
}

awaitable<fabrics> over_mixed(int size, settings options) {
  return make_job(size, std::move(options), make_mixed);
}

awaitable<fabrics> over_single_copy(int size, settings options) {
  options.shm_single_copy = single_copy::on;
  return make_job(size, std::move(options), shm::make_fabric);
}

}  // namespace

settings on_two_rails(settings options) {
  options.rails = "127.0.0.1,127.0.0.2";
  options.job_secret = secret(std::string_view("sixteen bytes or more"));
  return options;
}

awaitable<std::unique_ptr<fabric>> make_one(std::shared_ptr<store> rendezvous, settings options) {
  if (!options.rails.empty()) return rails::make_fabric(std::move(rendezvous), options);
  return tcp::make_fabric(std::move(rendezvous), options);
}

awaitable<std::unique_ptr<fabric>> make_mixed(std::shared_ptr<store> rendezvous, settings options) {
  const launch_info& who = rendezvous->who();
  options.host = 2 * who.rank < who.size ? "first" : "second";
  return mixed::make_fabric(std::move(rendezvous), options);
}

awaitable<fabrics> make_job(int size, settings options, fabric_maker make) {
  fabrics all(static_cast<std::size_t>(size));
  const reserved_port port;
  launch_info who;
  who.size = who.local_size = size;
  who.address = "127.0.0.1";
  who.port = port.number();
  who.job = "conformance";
  std::vector<awaitable<void>> ranks;
  for (who.rank = 0; who.rank < size; ++who.rank) {
    who.local_rank = who.rank;
    ranks.push_back(join_job(who, options, make, all));
  }
  co_await when_all(std::move(ranks));
  co_return all;
}

awaitable<fabrics> make_local(int size, settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const std::vector<asio::any_io_executor> executors(static_cast<std::size_t>(size), executor);
  co_return local::make_fabrics(executors, options);
}

const std::vector<fabric_kind>& fabric_kinds() {
  static const std::vector<fabric_kind> kinds{
      {"local", make_local}, {"tcp", over_tcp},
      {"rails", over_rails}, {"sealed_rails", over_sealed_rails},
      {"shm", over_shm},     {"shm_single_copy", over_single_copy},
      {"mixed", over_mixed}};
  return kinds;
}

}  // namespace tandem::test
