#pragma once

#include <memory>
#include <tandem/communicator.hpp>
#include <tandem/fabric.hpp>

#include "job.hpp"

namespace tandem::train {

/// Communicators of one rank.
struct groups {
  communicator world;
  std::unique_ptr<communicator> pipeline;  ///< the stages of its replica, by stage
  std::unique_ptr<communicator> replicas;  ///< the replicas of its stage, by replica
};

/// Collective over all ranks. With a profile (`settings::profile`) the collectives follow the plan
/// derived from it, else `plan::standard`: a plan from a probe may choose another algorithm in the
/// next run, which sums in another order, so that runs would not be bitwise reproducible.
/// @par Errors Those of `make_communicator` and `split`.
asio::awaitable<groups> make_groups(const job& what, fabric& over);

}  // namespace tandem::train
