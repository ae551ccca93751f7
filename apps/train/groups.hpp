#pragma once

#include <memory>
#include <tandem/collectives/communicator.hpp>
#include <tandem/fabric.hpp>

#include "job.hpp"

namespace tandem::train {

/// Whom a rank works with.
struct groups {
  communicator everyone;
  std::unique_ptr<communicator> pipeline;  ///< the other stages of its replica, by stage
  std::unique_ptr<communicator> replicas;  ///< the others of its stage, by replica
};

/// All ranks call it together. With a profile (`settings::profile`) their collectives follow the
/// plan that is agreed from it, else `plan::standard`: a plan from a probe may choose another
/// algorithm the next time, which adds in another order, and the same training would not give the
/// same bits. @par Errors As of `make_communicator` and `split`.
asio::awaitable<groups> make_groups(const job& what, fabric& over);

}  // namespace tandem::train
