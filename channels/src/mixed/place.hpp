#pragma once

#include <string>
#include <string_view>
#include <tandem/settings.hpp>

namespace tandem::mixed {

/// Where a rank is: what both ends of a pair choose their channel by, so that they choose alike.
struct place {
  std::string far;     ///< what carries its messages across hosts: "tcp", "rails"
  std::string shares;  ///< the same on ranks that can share memory; empty: with nobody

  std::string text() const;
  /// Of what `text` gave. Of anything else: a place that is no rank's.
  static place parse(std::string_view text);
};

/// Of this process, if it can share memory: kernel and network namespace, user, `settings::host`.
std::string shared_by_neighbours(const settings& options);

bool share_memory(const place& one, const place& other) noexcept;

}  // namespace tandem::mixed
