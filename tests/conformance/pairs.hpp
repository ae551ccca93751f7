#pragma once

#include "support/channel_case.hpp"

namespace tandem::test {

awaitable<channel_pair> pair_over_local(settings options);
awaitable<channel_pair> pair_over_tcp(settings options);

/// Connects and closes again: for attempts that must fail.
awaitable<void> connect_by_tcp(std::uint16_t port, settings options);

}  // namespace tandem::test
