#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <tandem/secret.hpp>
#include <tandem/settings.hpp>

#include "shm/link.hpp"

namespace tandem::shm {

/// Connects to a door on this host, says `mine` and reads the answer into `answer`; with a key,
/// proves it and has it proven. As `tcp::dial`, and the memory goes with the hello.
asio::awaitable<guest_socket> dial(std::string name, tcp::hello mine, secret key, settings options,
                                   tcp::hello& answer);

/// @param side  0 for the end that dialled.
std::shared_ptr<link> make_link(guest_socket socket, int side, const tcp::hello& mine,
                                const tcp::hello& theirs, const settings& options);

/// What two processes have in common where one's door can be reached by the other: the boot of the
/// kernel and the network namespace, "1b4e28ba-...:4026531840".
std::string host_identity();

}  // namespace tandem::shm
