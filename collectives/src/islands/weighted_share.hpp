#pragma once

#include <boost/asio/awaitable.hpp>
#include <tandem/collectives.hpp>
#include <tandem/communicator.hpp>

namespace tandem::detail {

/// The factor of each rank's data for which the sum is the weighted mean. Collective: an all_reduce
/// of one number. @par Errors As `islands::weighted_mean`.
asio::awaitable<double> weighted_share(communicator& all, data_type type, double weight);

}  // namespace tandem::detail
