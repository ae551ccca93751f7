// Messages between two ranks of a group, as coroutines that keep the group alive: they may be
// awaited after its communicator has ended.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tandem/communicator.hpp>

#include "group.hpp"

namespace tandem::detail {

using group_ptr = std::shared_ptr<group>;

asio::awaitable<void> send_message(group_ptr g, int to, const_view message, std::uint16_t tag,
                                   group::flow_class use = group::flow_class::point_to_point);
asio::awaitable<std::size_t> receive_message(
    group_ptr g, int from, mutable_view into, std::uint16_t tag,
    group::flow_class use = group::flow_class::point_to_point);
asio::awaitable<std::size_t> exchange_messages(group_ptr g, int to, const_view message, int from,
                                               mutable_view into, std::uint16_t tag);
asio::awaitable<std::size_t> probe_message(group_ptr g, int from, std::uint16_t tag);
asio::awaitable<received_message> receive_from_any(group_ptr g, mutable_view into,
                                                   std::uint16_t tag);

}  // namespace tandem::detail
