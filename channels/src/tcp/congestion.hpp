#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <tandem/async.hpp>
#include <tandem/settings.hpp>

namespace tandem::tcp {

/// Sets the congestion control of a connected socket as the settings name it. Default: reno where
/// both ends are on this host, the system's elsewhere. Within a host there is no queue to share,
/// while a pacing algorithm (BBR) sends from timers, which reduces the rate of long messages
/// (`bench/rails`, the loopback rows). Reno is in every kernel and permitted for every user.
void choose_congestion(asio::ip::tcp::socket& of, const settings& options);

/// @par Errors `errc::bad_option`: this kernel lacks the algorithm that the settings name, or does
/// not
///   permit it.
void check_congestion(const settings& options);

}  // namespace tandem::tcp
