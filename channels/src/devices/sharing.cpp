#include "devices/sharing.hpp"

#include <unistd.h>

#include <cstring>
#include <string_view>
#include <tandem/trust.hpp>

#include "shm/connect.hpp"

namespace tandem::devices {
namespace {

using id = std::array<std::byte, 16>;

/// FNV-1a, twice: distinguishes hosts, but not against a malicious peer.
id digest_of(std::string_view text) noexcept {
  id made{};
  for (const std::size_t half : {0, 1}) {
    std::uint64_t sum = 0xcbf29ce484222325ULL + half;
    for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    std::memcpy(made.data() + half * sizeof(sum), &sum, sizeof(sum));
  }
  return made;
}

/// Random, except the pid: the child of a fork has the rest from its parent.
id this_process() {
  static const id drawn = [] {
    id once{};
    trust::random_bytes(once);
    return once;
  }();
  id made = drawn;
  const pid_t pid = ::getpid();
  std::memcpy(made.data(), &pid, sizeof(pid));
  return made;
}

}  // namespace

whereabouts whereabouts::here() {
  static const id host = digest_of(shm::host_identity());
  return {host, this_process()};
}

reading choose_reading(const whereabouts& mine, const whereabouts& theirs, std::string& why) {
  if (mine == whereabouts{} || theirs == whereabouts{}) {
    why = "one end shares no memory";
    return reading::none;
  }
  if (mine.process == theirs.process) return reading::in_place;
  if (mine.host == theirs.host) return reading::mapped;
  why = "they are on different hosts";
  return reading::none;
}

bool is_one_host(const whereabouts& mine, const whereabouts& theirs) noexcept {
  return mine != whereabouts{} && theirs != whereabouts{} && mine.host == theirs.host;
}

}  // namespace tandem::devices
