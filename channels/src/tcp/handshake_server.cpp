#include "tcp/connect.hpp"
#include "tcp/handshake_server_body.hpp"

namespace tandem::tcp {

template class basic_handshake_server<asio::ip::tcp::socket>;

}  // namespace tandem::tcp
