#include "transports/rails/nic/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tandem/error.hpp>
#include <tandem/settings.hpp>
#include <utility>

#include "transports/rails/nic/candidate.hpp"

namespace tandem::rails {
namespace {

std::string list(const std::vector<nic_address>& addresses) {
  std::string text;
  for (const nic_address& a : addresses) {
    text += fmt::format("{}{}/{}", text.empty() ? "" : ", ", a.where.to_string(), a.prefix);
  }
  return text;
}

class chooser {
 public:
  chooser(const std::vector<nic>& nics, const rail_spec& spec, bool loopback_only)
      : nics_(nics), spec_(spec), loopback_only_(loopback_only) {}

  selection choose() {
    check_selectors();
    for (std::size_t i = 0; i < nics_.size(); ++i) all_.push_back(evaluate(i));
    if (!spec_.lists()) keep_most_capable(all_);
    if (loopback_only_) keep_loopback();
    sort_and_cut();
    return result();
  }

 private:
  std::string interfaces_here() const {
    std::string names;
    for (const nic& n : nics_) names += (names.empty() ? "" : ", ") + n.name;
    return names.empty() ? "none" : names;
  }

  std::string_view nearest_interface(std::string_view selector) const {
    std::vector<std::string_view> names;
    for (const nic& n : nics_) names.push_back(n.name);
    return nearest(selector, names);
  }

  /// All of 127.0.0.0/8 belongs to this machine, though the interface lists one address.
  static bool has(const nic& interface, const asio::ip::address& where) {
    if (interface.kind == nic_kind::loopback && where.is_loopback()) return true;
    return std::any_of(interface.addresses.begin(), interface.addresses.end(),
                       [&](const nic_address& a) { return a.where == where; });
  }

  bool matches_something(const rail_selector& selector) const {
    return std::any_of(nics_.begin(), nics_.end(), [&selector](const nic& n) {
      if (selector.what == rail_selector::selector_kind::interface) return selector.matches(n.name);
      if (selector.what == rail_selector::selector_kind::address) return has(n, selector.where);
      return std::any_of(n.addresses.begin(), n.addresses.end(),
                         [&](const nic_address& a) { return selector.matches(a.where); });
    });
  }

  void check_selectors() {
    for (const rail_selector& selector : spec_.selectors) {
      if (matches_something(selector)) continue;
      const bool by_name = selector.what == rail_selector::selector_kind::interface;
      const std::string_view near = by_name ? nearest_interface(selector.text) : "";
      const std::string advice = near.empty() ? fmt::format("there are: {}", interfaces_here())
                                              : fmt::format("did you mean {}?", near);
      if (selector.excludes) {
        // One list is used on many machines; only a likely typing error is reported.
        if (!near.empty()) {
          notes_.push_back(fmt::format("^{} excludes no interface here; did you mean ^{}?",
                                       selector.text, near));
        }
        continue;
      }
      std::string what = "no such interface";
      if (selector.what == rail_selector::selector_kind::address)
        what = "no interface has this address";
      if (selector.what == rail_selector::selector_kind::subnet)
        what = "no interface is in this subnet";
      throw error(errc::bad_option, fmt::format("rails {}: {}", selector.text, what),
                  by_name ? advice : "tandem rails lists interfaces and addresses");
    }
  }

  /// Applies the selectors and the state of an interface.
  candidate evaluate(std::size_t index) const {
    const nic& interface = nics_[index];
    candidate c{&interface, index, {}, spec_.selectors.size(), {}};
    if (spec_.lists()) {
      take_listed(c);
      if (c.list_position == spec_.selectors.size()) c.rejection = "not in the list of rails";
    } else {
      c.addresses = interface.addresses;
      std::erase_if(c.addresses, [](const nic_address& a) { return !a.unusable.empty(); });
    }
    if (c.rejection.empty()) c.rejection = why_unusable(interface, c.addresses);
    if (c.rejection.empty()) exclude(c);
    return c;
  }

  void take_listed(candidate& c) const {
    for (std::size_t i = 0; i < spec_.selectors.size(); ++i) {
      const rail_selector& selector = spec_.selectors[i];
      if (selector.excludes) continue;
      const std::size_t before = c.addresses.size();
      bool named = selector.matches(c.interface->name);
      for (const nic_address& a : c.interface->addresses) {
        const bool by_name = named && a.unusable.empty();
        if (by_name || selector.matches(a.where)) add(c, a);
      }
      const bool host_wide = c.interface->kind == nic_kind::loopback &&
                             selector.what == rail_selector::selector_kind::address;
      if (host_wide && selector.where.is_loopback()) {
        add(c, {selector.where, selector.where.is_v4() ? 8u : 128u, ""});
      }
      named = named || c.addresses.size() > before;
      if (named && c.list_position == spec_.selectors.size()) c.list_position = i;
    }
  }

  static void add(candidate& c, const nic_address& address) {
    // A published address has no zone, without which link-local IPv6 is ambiguous.
    if (address.where.is_v6() && !address.unusable.empty()) return;
    const bool there = std::any_of(c.addresses.begin(), c.addresses.end(),
                                   [&](const auto& a) { return a.where == address.where; });
    if (!there) c.addresses.push_back(address);
  }

  static std::string why_unusable(const nic& interface, const std::vector<nic_address>& addresses) {
    if (!interface.up) return "down";
    if (!interface.carrier) return "no carrier";
    if (!addresses.empty()) return {};
    if (!interface.master.empty())
      return fmt::format("no address of its own: part of {}", interface.master);
    return interface.addresses.empty() ? "no address" : "only link-local addresses";
  }

  void exclude(candidate& c) const {
    for (const rail_selector& selector : spec_.selectors) {
      if (!selector.excludes) continue;
      const bool named = selector.matches(c.interface->name);
      std::erase_if(c.addresses,
                    [&](const nic_address& a) { return named || selector.matches(a.where); });
      if (!c.addresses.empty()) continue;
      c.rejection = fmt::format("excluded by ^{}", selector.text);
      return;
    }
  }

  void keep_loopback() {
    for (candidate& c : all_) {
      const bool is_loopback = c.interface->kind == nic_kind::loopback;
      if (!is_loopback && c.rejection.empty()) {
        c.rejection = "without a job secret only loopback is used; TANDEM_INSECURE=1 lifts this";
      }
      if (!is_loopback || spec_.lists() || c.rejection.empty()) continue;
      c = evaluate(c.index);  // it was left out only in favour of interfaces that may not be used
    }
  }

  void sort_and_cut() {
    for (const candidate& c : all_) {
      if (c.rejection.empty()) order_.push_back(c.index);
    }
    std::stable_sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      return all_[a].list_position < all_[b].list_position;
    });
    const std::size_t max_count = spec_.max_count == 0 ? max_rails : spec_.max_count;
    for (const std::size_t index : order_) {
      add_rails(all_[index], max_count);
    }
  }

  void add_rails(candidate& c, std::size_t max_count) {
    const bool each = c.interface->kind == nic_kind::loopback && spec_.lists();
    if (rails_.size() >= max_count) {
      c.rejection = fmt::format("more than {} rail{}", max_count, max_count == 1 ? "" : "s");
    } else if (!each) {
      rails_.push_back({c.index, c.addresses});
    } else {
      c.addresses.resize(std::min(c.addresses.size(), max_count - rails_.size()));
      for (const nic_address& a : c.addresses) rails_.push_back({c.index, {a}});
    }
  }

  selection result() {
    selection found;
    for (const candidate& c : all_) {
      const bool chosen = c.rejection.empty();
      found.decisions.push_back(
          {chosen,
           chosen ? fmt::format("chosen: up, {}, {}", kind_text(*c.interface), list(c.addresses))
                  : fmt::format("left out: {}", c.rejection)});
    }
    found.rails = std::move(rails_);
    found.notes = std::move(notes_);
    return found;
  }

  const std::vector<nic>& nics_;
  const rail_spec& spec_;
  bool loopback_only_;
  std::vector<candidate> all_;
  std::vector<std::size_t> order_;
  std::vector<rail_end> rails_;
  std::vector<std::string> notes_;
};

}  // namespace

selection choose(const std::vector<nic>& nics, const rail_spec& spec, bool loopback_only) {
  return chooser(nics, spec, loopback_only).choose();
}

void require_rails(const std::vector<nic>& nics, const selection& chosen) {
  if (!chosen.rails.empty()) return;
  std::string reasons;
  for (std::size_t i = 0; i < nics.size() && i < 4; ++i) {
    reasons += fmt::format("{}{} {}", i == 0 ? "" : ", ", nics[i].name, chosen.decisions[i].why);
  }
  throw error(errc::bad_option,
              fmt::format("rails: no usable interface ({})",
                          reasons.empty() ? "this machine has none" : reasons),
              "tandem rails shows the reasons; change TANDEM_RAILS or bring an interface up");
}

}  // namespace tandem::rails
