#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::rails {

namespace asio = boost::asio;

/// One entry of `TANDEM_RAILS`.
struct rail_selector {
  enum class selector_kind : std::uint8_t { interface, address, subnet };

  std::string text;  ///< as written, without `^`
  selector_kind what = selector_kind::interface;
  bool excludes = false;
  asio::ip::address where;  ///< of an address or a subnet
  unsigned prefix = 0;      ///< of a subnet, bits

  /// True where it selects an interface of this name.
  bool matches(std::string_view interface) const;
  /// True where it selects this address.
  bool matches(const asio::ip::address& address) const noexcept;
};

/// The parsed value of `TANDEM_RAILS` or `--rails`, entries separated by commas: an interface (`*`
/// matches any characters), an address, a subnet (10.0.0.0/24, fd00::/64); `^` before an entry
/// excludes what it selects; a number is the maximum number of rails; an empty value, or "auto",
/// selects automatically.
struct rail_spec {
  std::vector<rail_selector> selectors;
  std::size_t max_count = 0;  ///< 0: no limit given

  bool lists() const noexcept;  ///< true where some entry includes
};

/// Maximum number of rails between two ranks.
constexpr std::size_t max_rails = 16;

/// @par Errors `errc::bad_option`: the entry, what is wrong with it, the syntax.
rail_spec parse_rails(std::string_view text);

}  // namespace tandem::rails
