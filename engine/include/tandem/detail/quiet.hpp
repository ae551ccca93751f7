// Not for users: what the engine and the rooms on it share.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace tandem::detail {

/// To be awaited: what an operation of Asio has to say as a tuple that begins with its error code;
/// nothing is thrown.
inline constexpr auto quiet = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace tandem::detail
