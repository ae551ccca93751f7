#pragma once

#include <memory>
#include <tandem/channel.hpp>

#include "devices/link.hpp"
#include "support/channel_case.hpp"
#include "support/device_views.hpp"
#include "support/verbs_rig.hpp"

namespace tandem::test {

/// Registers memory with all NICs of one side.
inline std::shared_ptr<devices::nic_memory> nics_of(const std::shared_ptr<rdma_network>& network,
                                                    int side) {
  return std::make_shared<devices::nic_memory>(
      [network, side](mutable_view memory, const dmabuf& exported) {
        return network->register_memory(side, memory, exported);
      });
}

/// An end that treats its peer as one of another host.
inline std::unique_ptr<channel> end_over_nics(std::unique_ptr<channel> inner,
                                              std::shared_ptr<devices::nic_memory> nics,
                                              const settings& options) {
  const auto by = std::make_shared<devices::copiers>(inner->get_executor());
  return devices::make_channel(std::move(inner), by, options, {}, devices::unshared_location,
                               std::move(nics));
}

}  // namespace tandem::test
