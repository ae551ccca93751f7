#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <tandem/secret.hpp>
#include <tandem/settings.hpp>

#include "shm/link.hpp"

namespace tandem::shm {

/// Connects to a listener on this host, sends `local_hello` and reads the reply into `answer`; with
/// a key, both ends prove it. As `tcp::connect_and_handshake`, and the descriptor of the shared
/// memory goes with the hello.
asio::awaitable<control_socket> connect_and_handshake(std::string name, tcp::hello local_hello,
                                                      secret key, settings options,
                                                      tcp::hello& answer);

/// @param side  0 for the end that connected.
std::shared_ptr<link> make_link(control_socket socket, int side, const tcp::hello& local_hello,
                                const tcp::hello& remote_hello, const settings& options);

/// Boot id of the kernel and inode of the network namespace, "1b4e28ba-...:4026531840": equal for
/// two processes that can reach each other's abstract sockets.
std::string host_identity();

}  // namespace tandem::shm
