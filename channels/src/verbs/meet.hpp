#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "sealed/connection.hpp"
#include "verbs/wire.hpp"

namespace tandem::verbs {

/// Two ends that have proven who they are tell each other their cards over this connection, both
/// connect their pairs, each says when it is ready, and then greets the other over both pairs. Both
/// ends call it.
///
/// @par Errors `errc::unreachable`: the device, with the call that failed; `protocol_violation`,
///   `version_mismatch`: the peer's card; `peer_closed`: the connection ended; `unreachable`: the
///   path does not work: why. No deadline of its own.
asio::awaitable<std::unique_ptr<wire>> meet(sealed::connection over, std::shared_ptr<adapter> on,
                                            room has);

}  // namespace tandem::verbs
