#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <tandem/run.hpp>
#include <tandem/settings.hpp>

namespace tandem::tcp {

/// Gives a connected socket the congestion control that the settings name. By itself: reno where
/// both ends are on this host, and nothing is touched elsewhere. Within a host there is no queue to
/// share, while one that paces (BBR) sends from timers, which costs long messages a part of their
/// rate (`bench/rails`, the rows of loopback). Reno is in every kernel and free for every user.
void choose_congestion(asio::ip::tcp::socket& of, const settings& options);

/// @par Errors `errc::bad_option`: this kernel lacks what the settings name, or keeps it from us.
void check_congestion(const settings& options);

}  // namespace tandem::tcp
