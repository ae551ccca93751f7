#pragma once

#include <string>

namespace tandem::transport {

/// Names this host to other ranks, also to those in containers of it. Boot id of the kernel and
/// inode of the network namespace, "1b4e28ba-...:4026531840": equal for two processes that can
/// reach each other's abstract sockets.
std::string host_identity();

}  // namespace tandem::transport
