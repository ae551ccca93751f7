#include "sealed/keys.hpp"

#include <string>
#include <tandem/detail/trust.hpp>
#include <utility>

namespace tandem::sealed {

keys derive_keys(const secret& known, std::span<const std::byte> of_connector,
                 std::span<const std::byte> of_listener, side which) {
  std::string hellos;
  for (const auto& one : {of_connector, of_listener}) {
    hellos.append(reinterpret_cast<const char*>(one.data()), one.size());
  }
  keys made(trust::derive_key(known, "tandem sealed by connector", hellos),
            trust::derive_key(known, "tandem sealed by listener", hellos));
  if (which == side::listener) std::swap(made.outgoing, made.incoming);
  return made;
}

}  // namespace tandem::sealed
