#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "page.hpp"

namespace tandem::train {
namespace {

std::string text_of(const std::set<std::string>& kinds) {
  return fmt::format("{}", fmt::join(kinds, ", "));
}

void add(std::set<std::string>& to, std::string_view kinds) {
  while (!kinds.empty()) {
    const std::size_t end = std::min(kinds.find(", "), kinds.size());
    to.emplace(kinds.substr(0, end));
    kinds.remove_prefix(std::min(end + 2, kinds.size()));
  }
}

}  // namespace

transports transports_of(const layout& who, fabric& over) {
  const int island = who.at(over.rank()).island;
  std::set<std::string> inside, between;
  for (int peer = 0; peer < over.size(); ++peer) {
    if (peer == over.rank() || over.find(peer) == nullptr) continue;
    (who.at(peer).island == island ? inside : between).emplace(over.kind_to(peer));
  }
  return {text_of(inside), text_of(between)};
}

transports transports_of(const std::vector<rank_record>& ranks) {
  std::set<std::string> inside, between;
  for (const rank_record& record : ranks) {
    add(inside, record.transports_inside);
    add(between, record.transports_between);
  }
  return {text_of(inside), text_of(between)};
}

}  // namespace tandem::train
