#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::rails {

namespace asio = boost::asio;

/// One word of `TANDEM_RAILS`.
struct rail_word {
  enum class meaning : std::uint8_t { interface, address, subnet };

  std::string text;  ///< as written, without `^`
  meaning what = meaning::interface;
  bool excludes = false;
  asio::ip::address where;  ///< of an address or a subnet
  unsigned prefix = 0;      ///< of a subnet, bits

  /// True where an interface of this name is meant.
  bool means(std::string_view interface) const;
  /// True where this address is meant.
  bool means(const asio::ip::address& address) const noexcept;
};

/// What a person asks for: `TANDEM_RAILS`, `--rails`. Words with commas between them: an interface
/// (`*` stands for any letters), an address, a subnet (10.0.0.0/24, fd00::/64); `^` before a word
/// excludes what it means; a number means at most so many rails; nothing, or "auto", leaves the
/// choice to the engine.
struct rail_spec {
  std::vector<rail_word> words;
  std::size_t most = 0;  ///< 0: not asked for

  bool lists() const noexcept;  ///< true where some word includes
};

/// No more rails than this between two ranks.
constexpr std::size_t max_rails = 16;

/// @par Errors `errc::bad_option`: the word, what is wrong with it, how to write it.
rail_spec parse_rails(std::string_view text);

}  // namespace tandem::rails
