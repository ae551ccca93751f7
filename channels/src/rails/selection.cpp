#include "rails/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tandem/error.hpp>
#include <tandem/settings.hpp>
#include <utility>

#include "rails/candidate.hpp"

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
    check_words();
    for (std::size_t i = 0; i < nics_.size(); ++i) all_.push_back(look_at(i));
    if (!spec_.lists()) keep_the_most_capable(all_);
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

  std::string_view nearest_interface(std::string_view word) const {
    std::vector<std::string_view> names;
    for (const nic& n : nics_) names.push_back(n.name);
    return nearest(word, names);
  }

  /// All of 127.0.0.0/8 belongs to this machine, though the interface lists one address.
  static bool has(const nic& one, const asio::ip::address& where) {
    if (one.kind == nic_kind::loopback && where.is_loopback()) return true;
    return std::any_of(one.addresses.begin(), one.addresses.end(),
                       [&](const nic_address& a) { return a.where == where; });
  }

  bool matches_something(const rail_word& word) const {
    return std::any_of(nics_.begin(), nics_.end(), [&word](const nic& n) {
      if (word.what == rail_word::meaning::interface) return word.means(n.name);
      if (word.what == rail_word::meaning::address) return has(n, word.where);
      return std::any_of(n.addresses.begin(), n.addresses.end(),
                         [&](const nic_address& a) { return word.means(a.where); });
    });
  }

  void check_words() {
    for (const rail_word& word : spec_.words) {
      if (matches_something(word)) continue;
      const bool by_name = word.what == rail_word::meaning::interface;
      const std::string_view near = by_name ? nearest_interface(word.text) : "";
      const std::string advice = near.empty() ? fmt::format("there are: {}", interfaces_here())
                                              : fmt::format("did you mean {}?", near);
      if (word.excludes) {
        // One list is used on many machines; only a likely typing error is reported.
        if (!near.empty()) {
          notes_.push_back(
              fmt::format("^{} excludes no interface here; did you mean ^{}?", word.text, near));
        }
        continue;
      }
      std::string what = "no such interface";
      if (word.what == rail_word::meaning::address) what = "no interface has this address";
      if (word.what == rail_word::meaning::subnet) what = "no interface is in this subnet";
      throw error(errc::bad_option, fmt::format("rails {}: {}", word.text, what),
                  by_name ? advice : "tandem rails lists interfaces and addresses");
    }
  }

  /// Applies the selectors and the state of an interface.
  candidate look_at(std::size_t index) const {
    const nic& one = nics_[index];
    candidate c{&one, index, {}, spec_.words.size(), {}};
    if (spec_.lists()) {
      take_listed(c);
      if (c.place == spec_.words.size()) c.out = "not in the list of rails";
    } else {
      c.addresses = one.addresses;
      std::erase_if(c.addresses, [](const nic_address& a) { return !a.unusable.empty(); });
    }
    if (c.out.empty()) c.out = unfit(one, c.addresses);
    if (c.out.empty()) exclude(c);
    return c;
  }

  void take_listed(candidate& c) const {
    for (std::size_t i = 0; i < spec_.words.size(); ++i) {
      const rail_word& word = spec_.words[i];
      if (word.excludes) continue;
      const std::size_t before = c.addresses.size();
      bool named = word.means(c.one->name);
      for (const nic_address& a : c.one->addresses) {
        const bool by_name = named && a.unusable.empty();
        if (by_name || word.means(a.where)) add(c, a);
      }
      const bool host_wide =
          c.one->kind == nic_kind::loopback && word.what == rail_word::meaning::address;
      if (host_wide && word.where.is_loopback()) {
        add(c, {word.where, word.where.is_v4() ? 8u : 128u, ""});
      }
      named = named || c.addresses.size() > before;
      if (named && c.place == spec_.words.size()) c.place = i;
    }
  }

  static void add(candidate& c, const nic_address& address) {
    // A published address has no zone, without which link-local IPv6 is ambiguous.
    if (address.where.is_v6() && !address.unusable.empty()) return;
    const bool there = std::any_of(c.addresses.begin(), c.addresses.end(),
                                   [&](const auto& a) { return a.where == address.where; });
    if (!there) c.addresses.push_back(address);
  }

  static std::string unfit(const nic& one, const std::vector<nic_address>& addresses) {
    if (!one.up) return "down";
    if (!one.carrier) return "no carrier";
    if (!addresses.empty()) return {};
    if (!one.master.empty()) return fmt::format("no address of its own: part of {}", one.master);
    return one.addresses.empty() ? "no address" : "only link-local addresses";
  }

  void exclude(candidate& c) const {
    for (const rail_word& word : spec_.words) {
      if (!word.excludes) continue;
      const bool named = word.means(c.one->name);
      std::erase_if(c.addresses,
                    [&](const nic_address& a) { return named || word.means(a.where); });
      if (!c.addresses.empty()) continue;
      c.out = fmt::format("excluded by ^{}", word.text);
      return;
    }
  }

  void keep_loopback() {
    for (candidate& c : all_) {
      const bool is_loopback = c.one->kind == nic_kind::loopback;
      if (!is_loopback && c.out.empty()) {
        c.out = "without a job secret only loopback is used; TANDEM_INSECURE=1 lifts this";
      }
      if (!is_loopback || spec_.lists() || c.out.empty()) continue;
      c = look_at(c.index);  // it was left out only in favour of interfaces that may not be used
    }
  }

  void sort_and_cut() {
    for (const candidate& c : all_) {
      if (c.out.empty()) order_.push_back(c.index);
    }
    std::stable_sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      return all_[a].place < all_[b].place;
    });
    const std::size_t most = spec_.most == 0 ? max_rails : spec_.most;
    for (const std::size_t index : order_) {
      add_rails(all_[index], most);
    }
  }

  void add_rails(candidate& c, std::size_t most) {
    const bool each = c.one->kind == nic_kind::loopback && spec_.lists();
    if (rails_.size() >= most) {
      c.out = fmt::format("more than {} rail{}", most, most == 1 ? "" : "s");
    } else if (!each) {
      rails_.push_back({c.index, c.addresses});
    } else {
      c.addresses.resize(std::min(c.addresses.size(), most - rails_.size()));
      for (const nic_address& a : c.addresses) rails_.push_back({c.index, {a}});
    }
  }

  selection result() {
    selection found;
    for (const candidate& c : all_) {
      const bool chosen = c.out.empty();
      found.verdicts.push_back(
          {chosen, chosen ? fmt::format("chosen: up, {}, {}", word_for(*c.one), list(c.addresses))
                          : fmt::format("left out: {}", c.out)});
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
    reasons += fmt::format("{}{} {}", i == 0 ? "" : ", ", nics[i].name, chosen.verdicts[i].why);
  }
  throw error(errc::bad_option,
              fmt::format("rails: no usable interface ({})",
                          reasons.empty() ? "this machine has none" : reasons),
              "tandem rails shows the reasons; change TANDEM_RAILS or bring an interface up");
}

}  // namespace tandem::rails
