#include <fmt/format.h>

#include <cmath>
#include <tandem/collectives.hpp>
#include <tandem/error.hpp>

namespace tandem {
namespace {

/// This rank's weight divided by the sum of all weights.
asio::awaitable<double> share_of(communicator& among, data_type type, double weight) {
  if (!std::isfinite(weight) || weight < 0) {
    throw error(errc::bad_input, fmt::format("weighted_mean: invalid weight {}", weight),
                "pass a finite weight of 0 or more, for example the rank's number of samples");
  }
  if (is_defined(type, reduce_op::bxor)) {
    throw error(errc::bad_input, fmt::format("weighted_mean: integer type {}", name(type)),
                "use a floating-point type");
  }
  double total = weight;
  const mutable_view sum(&total, sizeof total);
  co_await all_reduce(among, sum, data_type::float64, reduce_op::sum);
  if (!(total > 0)) {
    throw error(errc::bad_input, fmt::format("weighted_mean: the weights add up to {}", total),
                "at least one rank needs a positive weight, and the sum must be finite");
  }
  co_return weight / total;
}

}  // namespace

asio::awaitable<void> weighted_mean(communicator& among, mutable_view data, data_type type,
                                    double weight) {
  const double factor = co_await share_of(among, type, weight);
  const reduction share = premultiplied_sum(factor);
  co_await all_reduce(among, data, type, share);
}

}  // namespace tandem
