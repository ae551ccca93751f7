#pragma once

#include <memory>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>

/// Each pair of ranks by what serves it best: shared memory within a host, the network across.
namespace tandem::mixed {

/// The ranks that met in `meeting`, connected when they first need each other: by shared memory
/// (`shm`) where both have the same kernel, network namespace, user and `settings::host`, else by
/// `rails` where `settings::rails` asks for some, else by `tcp`. Each rank publishes where it is,
/// and both ends of a pair choose by what both have published. A rank that cannot share memory
/// says so in the log (info) and is reached over the network by all.
///
/// `fabric::kind_to` says what was chosen: "shm", "rails", "tcp".
/// @par Failure  As of the fabrics that it is made of: whichever notices that a rank is lost, all
///   channels of every rank fail with that reason, and `close` and `fail` reach all of them.
/// @par Errors those of `tcp::make_fabric` or `rails::make_fabric`. Of `fabric::to`: those of
///   `shm::connect` and `tcp::connect`; `errc::bad_option`, on both, where one of two ranks that
///   share no memory asks for rails and the other does not.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options);

}  // namespace tandem::mixed
