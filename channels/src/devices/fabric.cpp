#include <tandem/channels.hpp>
#include <utility>

#include "devices/mesh.hpp"
#include "tcp/fabric_handle.hpp"

namespace tandem::devices {

std::unique_ptr<fabric> make_fabric(std::unique_ptr<fabric> over, settings options) {
  return std::make_unique<tcp::fabric_handle<mesh>>(
      std::make_shared<mesh>(std::move(over), std::move(options)));
}

}  // namespace tandem::devices
