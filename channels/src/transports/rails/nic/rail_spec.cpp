#include "transports/rails/nic/rail_spec.hpp"

#include <fmt/format.h>
#include <fnmatch.h>
#include <net/if.h>

#include <algorithm>
#include <charconv>
#include <tandem/error.hpp>
#include <utility>

#include "transports/rails/nic/nic.hpp"

namespace tandem::rails {
namespace {

constexpr auto how_to_write =
    "list interfaces (eth0, eth*), addresses (10.0.0.1) or subnets (10.0.0.0/24), separated by "
    "commas, ^ before each to exclude, or give a number of rails";

error wrong(std::string_view selector, std::string_view what, std::string advice = how_to_write) {
  return error(errc::bad_option, fmt::format("rails {}: {}", selector, what), std::move(advice));
}

bool only(std::string_view text, std::string_view letters) {
  return text.find_first_not_of(letters) == std::string_view::npos;
}

/// A whole number, or -1.
int whole_number(std::string_view text) {
  int value = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && rest == text.data() + text.size() && only(text, "0123456789")
             ? value
             : -1;
}

void check_interface(std::string_view selector, std::string_view name) {
  if (name.size() >= IFNAMSIZ) {
    throw wrong(selector,
                fmt::format("longer than an interface name ({} characters)", IFNAMSIZ - 1));
  }
  if (only(name, "0123456789.") || name.find(':') != std::string_view::npos) {
    throw wrong(selector, "not an address");
  }
  const auto odd = [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f ||
           std::string_view("?[]\\^=").find(c) != std::string_view::npos;
  };
  if (std::any_of(name.begin(), name.end(), odd)) throw wrong(selector, "not an interface name");
}

rail_selector parse_selector(std::string_view selector) {
  rail_selector found;
  found.excludes = selector.starts_with('^');
  const std::string_view bare = found.excludes ? selector.substr(1) : selector;
  if (bare.empty()) throw wrong(selector, "nothing after the ^");
  found.text = bare;
  boost::system::error_code failure;
  const std::size_t slash = bare.find('/');
  std::string_view address = bare.substr(0, slash);
  if (address.starts_with('[')) {
    const std::size_t close = address.find(']');
    if (close == std::string_view::npos) throw wrong(selector, "an unclosed bracket");
    if (address.substr(close + 1).starts_with(':')) throw wrong(selector, "rails have no port");
    address = address.substr(1, address.size() - 2);
  }
  found.where = asio::ip::make_address(std::string(address), failure);
  const bool is_link_local = !failure && found.where.is_v6() && found.where.to_v6().is_link_local();
  if (is_link_local && slash == std::string_view::npos && !found.excludes) {
    throw wrong(selector, "link-local addresses cannot be rails");
  }
  if (slash != std::string_view::npos) {
    found.what = rail_selector::selector_kind::subnet;
    if (failure) throw wrong(selector, "not an address before the /");
    const int prefix = whole_number(bare.substr(slash + 1));
    const int bits = found.where.is_v4() ? 32 : 128;
    if (prefix < 0 || prefix > bits) {
      throw wrong(selector, fmt::format("prefix length outside 0 to {} bits", bits));
    }
    found.prefix = static_cast<unsigned>(prefix);
  } else if (!failure) {
    found.what = rail_selector::selector_kind::address;
  } else {
    check_interface(selector, bare);
  }
  return found;
}

}  // namespace

bool rail_selector::matches(std::string_view interface) const {
  return what == selector_kind::interface &&
         ::fnmatch(text.c_str(), std::string(interface).c_str(), FNM_NOESCAPE) == 0;
}

bool rail_selector::matches(const asio::ip::address& address) const noexcept {
  if (what == selector_kind::address) return where == address;
  return what == selector_kind::subnet && in_subnet(address, where, prefix);
}

bool rail_spec::lists() const noexcept {
  return std::any_of(selectors.begin(), selectors.end(),
                     [](const rail_selector& w) { return !w.excludes; });
}

rail_spec parse_rails(std::string_view text) {
  rail_spec found;
  if (text.empty() || text == "auto") return found;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view selector = text.substr(0, comma);
    if (selector.empty()) throw wrong("''", "empty entry: one comma too many");
    if (only(selector, "0123456789")) {
      const int max_count = whole_number(selector);
      if (max_count < 1 || max_count > static_cast<int>(max_rails)) {
        throw wrong(selector, fmt::format("outside 1 to {} rails", max_rails));
      }
      if (found.max_count != 0) throw wrong(selector, "a second number of rails");
      found.max_count = static_cast<std::size_t>(max_count);
    } else {
      found.selectors.push_back(parse_selector(selector));
    }
    if (comma == std::string_view::npos) return found;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace tandem::rails
