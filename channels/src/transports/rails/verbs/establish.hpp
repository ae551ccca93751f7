#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "sealed/connection.hpp"
#include "transports/rails/verbs/lane_connection.hpp"

namespace tandem::verbs {

/// Sets up an RDMA lane with the peer over this authenticated connection: exchanges the queue pair
/// info, connects the queue pairs, waits until both ends are ready, and checks the path by sending
/// on both queue pairs. Both ends call it.
///
/// @par Errors `errc::unreachable`: the device, with the call that failed; `protocol_violation`,
///   `version_mismatch`: the peer's queue pair info; `peer_closed`: the connection was closed;
///   `unreachable`: the path does not work, with the reason. No timeout of its own.
asio::awaitable<std::unique_ptr<lane_connection>> establish(sealed::connection over,
                                                            std::shared_ptr<adapter> on,
                                                            queue_depths has);

}  // namespace tandem::verbs
