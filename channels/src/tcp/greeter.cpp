#include "tcp/connect.hpp"
#include "tcp/greeter_body.hpp"

namespace tandem::tcp {

template class basic_greeter<asio::ip::tcp::socket>;

}  // namespace tandem::tcp
