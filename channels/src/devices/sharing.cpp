#include "devices/sharing.hpp"

#include <unistd.h>

#include <cstring>
#include <string_view>
#include <tandem/detail/trust.hpp>

#include "fabric/host_identity.hpp"
#include "protocol/frame.hpp"

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

/// Little endian: number u32, start u64.
void set_owner_of_pages(shared_allocation& of, const shm::process_number& owner) {
  protocol::put<std::uint32_t>(of.handle.data(), owner.number);
  protocol::put<std::uint64_t>(of.handle.data() + 4, owner.started);
}

shm::process_number owner_of_pages(const shared_allocation& of) {
  return {protocol::take<std::uint32_t>(of.handle.data()),
          protocol::take<std::uint64_t>(of.handle.data() + 4)};
}

process_location process_location::here() {
  static const id host = digest_of(transport::host_identity());
  return {host, this_process()};
}

peer_access choose_peer_access(const process_location& mine, const process_location& theirs,
                               std::string& why) {
  if (mine == process_location{} || theirs == process_location{}) {
    why = "one end shares no memory";
    return peer_access::none;
  }
  if (mine.process == theirs.process) return peer_access::same_process;
  if (mine.host == theirs.host) return peer_access::mapped;
  why = "they are on different hosts";
  return peer_access::none;
}

bool is_one_host(const process_location& mine, const process_location& theirs) noexcept {
  return mine != process_location{} && theirs != process_location{} && mine.host == theirs.host;
}

}  // namespace tandem::devices
