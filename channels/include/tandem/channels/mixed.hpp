#pragma once

#include <memory>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>

/// The best transport for each pair of ranks: shared memory within a host, the network between
/// hosts.
namespace tandem::mixed {

/// Connects the ranks of `meeting`, each pair on first use: by shared memory (`shm`) where both
/// have the same kernel, network namespace, user and `settings::host`, else by `rails` where
/// `settings::rails` names some, else by `tcp`. Each rank publishes its location, and both ends of
/// a pair decide from the two locations. A rank that cannot share memory logs this (info), and all
/// others use the network to reach it.
///
/// `fabric::kind_to` names the transport chosen: "shm", "rails", "tcp".
/// @par Failure  As for the underlying fabrics: whichever detects that a rank is lost, all channels
///   of every rank fail with that reason; `close` and `fail` apply to all of them.
/// @par Errors those of `tcp::make_fabric` or `rails::make_fabric`. For `fabric::to`: those of
///   `shm::connect` and `tcp::connect`; `errc::bad_option`, on both, where only one of two ranks
///   that share no memory has rails configured.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options);

}  // namespace tandem::mixed
