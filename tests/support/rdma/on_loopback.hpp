#pragma once

#include <memory>
#include <string>
#include <tandem/settings.hpp>

#include "support/rdma/double.hpp"

namespace tandem::test {

inline const std::string loopback_device = "double0";

/// One device that stands on the loopback interface, so that all ranks of this process meet on it.
std::unique_ptr<rdma_double> rdma_on_loopback();

/// A rail over it, and a secret.
settings rdma_settings(rdma_use how);

}  // namespace tandem::test
