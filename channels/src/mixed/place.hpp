#pragma once

#include <string>
#include <string_view>
#include <tandem/settings.hpp>

namespace tandem::mixed {

/// The location of a rank. Both ends of a pair choose their transport from both locations, so that
/// they choose alike.
struct place {
  std::string far;     ///< its transport between hosts: "tcp", "rails"
  std::string shares;  ///< equal on ranks that can share memory; empty: none

  std::string text() const;
  /// The inverse of `text`; of other text, a location with an empty `far`.
  static place parse(std::string_view text);
};

/// `place::shares` of this process: kernel, network namespace, user, `settings::host`.
std::string shared_by_neighbours(const settings& options);

bool share_memory(const place& one, const place& other) noexcept;

}  // namespace tandem::mixed
