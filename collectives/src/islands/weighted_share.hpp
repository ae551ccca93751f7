#pragma once

#include <boost/asio/awaitable.hpp>
#include <tandem/collectives/communicator.hpp>
#include <tandem/collectives/reduction.hpp>

namespace tandem::detail {

/// By what each rank multiplies what it brings so that the sum of it is a mean weighted so.
/// Collective: an all_reduce of one number. @par Errors as `islands::weighted_mean`.
asio::awaitable<double> weighted_share(communicator& all, data_type type, double weight);

}  // namespace tandem::detail
