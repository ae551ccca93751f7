#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <tandem/error.hpp>
#include <type_traits>
#include <utility>

#include "communicator/messages.hpp"

namespace tandem::detail {

// What two processes of one program on one host tell each other about their streams and kernels, as
// plain bytes. @par Errors  as of messages; `protocol_violation`: it has another length.

template <class Message>
boost::asio::awaitable<void> post_about_streams(std::shared_ptr<group> over, int to, Message what,
                                                std::uint16_t tag) {
  static_assert(std::is_trivially_copyable_v<Message>);
  const const_view bytes(&what, sizeof what);
  co_await send_message(std::move(over), to, bytes, tag, group::flow_class::stream);
}

template <class Message>
boost::asio::awaitable<Message> take_about_streams(std::shared_ptr<group> over, int from,
                                                   std::uint16_t tag) {
  static_assert(std::is_trivially_copyable_v<Message>);
  const int peer = over->member(from);
  Message what;
  const mutable_view bytes(&what, sizeof what);
  const std::size_t length =
      co_await receive_message(std::move(over), from, bytes, tag, group::flow_class::stream);
  if (length == sizeof what) co_return what;
  throw error(errc::protocol_violation, {.peer = peer,
                                         .rail = {},
                                         .phase = {},
                                         .detail = "a message about streams of another length",
                                         .advice = "use the same version on all ranks"});
}

}  // namespace tandem::detail
