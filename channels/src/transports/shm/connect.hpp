#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <tandem/secret.hpp>
#include <tandem/settings.hpp>

#include "transports/shm/link.hpp"

namespace tandem::shm {

/// Connects to a listener on this host, sends `local_hello` and reads the reply into `answer`; with
/// a key, both ends prove it. As `transport::connect_and_handshake`, and the descriptor of the
/// shared memory goes with the hello.
asio::awaitable<control_socket> connect_and_handshake(std::string name,
                                                      transport::hello local_hello, secret key,
                                                      settings options, transport::hello& answer);

/// @param side  0 for the end that connected.
std::shared_ptr<link> make_link(control_socket socket, int side,
                                const transport::hello& local_hello,
                                const transport::hello& remote_hello, const settings& options);

}  // namespace tandem::shm
