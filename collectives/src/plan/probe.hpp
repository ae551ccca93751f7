#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <tandem/collectives/communicator.hpp>
#include <tandem/collectives/facts.hpp>

#include "plan/layout.hpp"

namespace tandem::detail {

/// Measures the two kinds of ways that there are: between the first two ranks of the first host
/// that has two, and between the first ranks of the first two hosts. Every rank calls it; the lower
/// rank of each pair returns lines of a profile, and so does a rank that leads both. What carries
/// the messages of a pair says `fabric::kind_to`.
///
/// The messages lie in memory such as that of `like`, each rank's its own. Devices' need longer
/// ones: `on_devices`, the same on every rank, is true where one of them has such memory.
///
/// Latency: half the median of some round trips of 8 bytes. Rate: lengths are doubled until a round
/// trip takes some milliseconds; the last one beside the one before, so that what is the same for
/// both does not count: latency, the burst that a shaped link lets through. Rounded to two digits,
/// so that most noise moves no plan.
asio::awaitable<std::string> probe(communicator& all, const layout& where, const_view like,
                                   bool on_devices);

/// Two significant digits. Never 0.
std::uint64_t rounded(std::uint64_t value) noexcept;

}  // namespace tandem::detail
