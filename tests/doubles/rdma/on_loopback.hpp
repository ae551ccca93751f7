#pragma once

#include <memory>
#include <string>
#include <tandem/settings.hpp>

#include "doubles/rdma/double.hpp"

namespace tandem::test {

inline const std::string loopback_device = "double0";

/// A device on the loopback interface, which all ranks of this process share.
std::unique_ptr<rdma_double> rdma_on_loopback();

/// A rail over it, and a job secret.
settings rdma_settings(rdma_use how);

}  // namespace tandem::test
