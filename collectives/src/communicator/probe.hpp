#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <tandem/communicator.hpp>
#include <tandem/plan.hpp>

#include "plan/layout.hpp"

namespace tandem::detail {

/// Measures the two kinds of paths: between the first two ranks of the first host that has two, and
/// between the first ranks of the first two hosts. Every rank calls it; the lower rank of each pair
/// returns its lines of a profile, others an empty text. `fabric::kind_to` gives the transport.
///
/// Messages are in memory of the kind of `like`, which may differ by rank. Devices need longer
/// messages: `on_devices`, the same on every rank, is true if any rank uses device memory.
///
/// Latency: half of the 20th percentile of round trips of 8 bytes. Rate: lengths are doubled until
/// a round trip takes some milliseconds; the difference of the last two excludes costs that do not
/// depend on the length: latency, the burst that a shaped link lets through. Rounded to two digits,
/// so that most noise does not change the plan.
asio::awaitable<std::string> probe(communicator& all, const layout& where, const_view like,
                                   bool on_devices);

/// Rounds to two significant digits. Never 0.
std::uint64_t rounded(std::uint64_t value) noexcept;

}  // namespace tandem::detail
