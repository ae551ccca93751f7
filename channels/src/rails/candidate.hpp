#pragma once

#include <string>
#include <vector>

#include "rails/nic.hpp"

namespace tandem::rails {

/// An interface on its way through the choice.
struct candidate {
  const nic* one = nullptr;
  std::size_t index = 0;
  std::vector<nic_address> addresses;  ///< what the words leave of them
  std::size_t place = 0;               ///< of the word that listed it
  std::string out;                     ///< why it is left out; empty: it is not
};

/// What people call an interface: "ethernet", "veth pair of this machine".
std::string word_for(const nic& one);

/// Leaves out, with the reason, all but the most capable interfaces: the choice where nobody listed
/// any. What it does says `choose`.
void keep_the_most_capable(std::vector<candidate>& all);

}  // namespace tandem::rails
