#include "fuzz/sealed_targets.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "fuzz/targets.hpp"
#include "sealed/incoming.hpp"
#include "sealed/record.hpp"

namespace tandem::fuzz {
namespace {

/// Consumes numbers from the input; zeros after its end.
class script {
 public:
  explicit script(bytes input) : rest_(input) {}
  bool is_over() const { return rest_.empty(); }
  std::size_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::size_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }
  std::size_t word() {
    const std::size_t high = byte();
    return high << 8 | byte();
  }
  bytes some(std::size_t count) {
    const bytes taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  bytes rest_;
};

/// The sealed text and the bytes on the wire after manipulation.
struct transmission {
  std::vector<std::byte> sent, wire;
  bool is_intact = true;  // the wire was not manipulated
};

constexpr std::size_t max_wire_bytes = std::size_t{1} << 19;

void seal(sealed::sealer& with, std::size_t count, transmission& into) {
  const std::size_t before = into.sent.size(), at = into.wire.size();
  for (std::size_t i = 0; i < count; ++i) {
    into.sent.push_back(static_cast<std::byte>((before + i) * 131 >> 3));
  }
  const iovec text{into.sent.data() + before, count};
  sealed::cursor from(std::span(&text, 1));
  into.wire.resize(at + count + sealed::overhead_bytes);
  with.seal(from, count, into.wire.data() + at);
}

transmission transmit(script& by) {
  transmission result;
  sealed::sealer with(secret(std::string_view("a key of the fuzzer")), 5);
  while (!by.is_over() && result.wire.size() < max_wire_bytes) {
    const std::size_t what = by.byte() % 8;
    if (what < 4) {
      seal(with, 1 + (what == 3 ? by.word() : by.byte()), result);
      continue;
    }
    result.is_intact = false;
    const std::size_t at = result.wire.empty() ? 0 : by.word() % result.wire.size();
    const auto position = result.wire.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t count = by.byte();
    if (what == 4 && !result.wire.empty()) {
      result.wire[at] ^= static_cast<std::byte>(1U << (count % 8));
    } else if (what == 5) {
      const std::size_t removed = std::min(count, result.wire.size() - at);
      result.wire.erase(position, position + static_cast<std::ptrdiff_t>(removed));
    } else if (what == 6) {
      const bytes injected = by.some(count);
      result.wire.insert(position, injected.begin(), injected.end());
    } else {
      const std::vector<std::byte> repeated(position, result.wire.end());
      result.wire.insert(result.wire.end(), repeated.begin(), repeated.end());
    }
  }
  return result;
}

}  // namespace

/// Whatever happened on the wire, the delivered bytes are a prefix of the text, and all of it if
/// the wire is intact.
void records(bytes input) {
  script by(input);
  const std::size_t piece = 1 + by.byte() * 37, max_space = 1 + by.byte() * 53;
  const transmission result = transmit(by);
  sealed::incoming in(secret(std::string_view("a key of the fuzzer")), 5);
  std::vector<std::byte> space(max_space);
  std::size_t got = 0;
  bytes rest(result.wire);
  for (bool more = true; more;) {
    const iovec parts[2]{{space.data(), space.size() / 3},
                         {space.data() + space.size() / 3, space.size() - space.size() / 3}};
    sealed::cursor to(parts);
    in.open(to);
    require(to.done_bytes() <= result.sent.size() - got);
    require(std::equal(space.begin(), space.begin() + static_cast<std::ptrdiff_t>(to.done_bytes()),
                       result.sent.begin() + static_cast<std::ptrdiff_t>(got)));
    got += to.done_bytes();
    if (in.is_broken()) break;
    if (in.holds_more()) continue;
    const std::span<std::byte> free = in.space();
    require(!free.empty());
    const std::size_t n = std::min({piece, free.size(), rest.size()});
    std::copy_n(rest.begin(), n, free.begin());
    in.received(n);
    rest = rest.subspan(n);
    more = n > 0;
  }
  require(in.is_broken() == !in.why().empty());
  require(!result.is_intact || (!in.is_broken() && got == result.sent.size()));
}

}  // namespace tandem::fuzz
