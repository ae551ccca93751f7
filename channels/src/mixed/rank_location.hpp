#pragma once

#include <string>
#include <string_view>
#include <tandem/settings.hpp>

namespace tandem::mixed {

/// The location of a rank. Both ends of a pair choose their transport from both locations, so that
/// they choose alike.
struct rank_location {
  std::string inter_host;      ///< its transport between hosts: "tcp", "rails"
  std::string sharing_domain;  ///< equal on ranks that can share memory; empty: none

  std::string text() const;
  /// The inverse of `text`; of other text, a location with an empty `inter_host`.
  static rank_location parse(std::string_view text);
};

/// `rank_location::sharing_domain` of this process: kernel, network namespace, user,
/// `settings::host`.
std::string local_sharing_domain(const settings& options);

bool share_memory(const rank_location& one, const rank_location& other) noexcept;

}  // namespace tandem::mixed
