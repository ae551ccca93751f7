#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>
#include <vector>

namespace tandem::test {

using fabrics = std::vector<std::unique_ptr<fabric>>;

/// Makes a rank's fabric after the rendezvous.
using fabric_maker = boost::asio::awaitable<std::unique_ptr<fabric>> (*)(
    std::shared_ptr<store> rendezvous, settings options);

/// With a job secret, which rails require.
settings on_two_rails(settings options);

/// Over rails if the settings name any, else over tcp.
boost::asio::awaitable<std::unique_ptr<fabric>> make_one(std::shared_ptr<store> rendezvous,
                                                         settings options);

/// Two emulated hosts, the first half of the ranks and the rest: shared memory within, `make_one`
/// across.
boost::asio::awaitable<std::unique_ptr<fabric>> make_mixed(std::shared_ptr<store> rendezvous,
                                                           settings options);

/// All ranks of a job in this process, on one executor, with a rendezvous over loopback.
boost::asio::awaitable<fabrics> make_job(int size, settings options, fabric_maker make = make_one);
/// The same over `local`, without a rendezvous.
boost::asio::awaitable<fabrics> make_local(int size, settings options = {});

/// A way to connect the ranks of a job.
struct fabric_kind {
  std::string name;
  boost::asio::awaitable<fabrics> (*make)(int size, settings options);
};
/// local, tcp, two rails, two encrypted rails, shm with and without single copy, mixed on two
/// hosts.
const std::vector<fabric_kind>& fabric_kinds();

}  // namespace tandem::test
