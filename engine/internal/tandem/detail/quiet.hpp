// Private: shared by the engine and the modules built on it, not part of the public interface.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace tandem::detail {

/// Completion token: the result of an Asio operation as a tuple that begins with its error code;
/// nothing is thrown.
inline constexpr auto quiet = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace tandem::detail
