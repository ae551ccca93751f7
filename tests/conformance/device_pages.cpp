// Peer copies from and to memory whose pages are made apart from their addresses, as PyTorch's
// expandable segments and ncclMemAlloc's are: a message may lie in several.

#include <filesystem>

#include "conformance/peers_rig.hpp"
#include "support/pattern.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t unit = 64 << 10;

/// Pages of one device, of three, one and two units.
class segment {
 public:
  segment(cuda_double& gpus, int device)
      : gpus_(gpus), device_(device), base_(gpus.make_pages(device, {3 * unit, unit, 2 * unit})) {}
  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;
  ~segment() { gpus_.free_pages(base_); }

  mutable_view view(std::size_t offset, std::size_t bytes) const {
    return {base_ + offset, bytes, memory_kind::cuda, device_};
  }
  std::span<std::byte> on_host(std::size_t offset, std::size_t bytes) const {
    return {gpus_.host(base_ + offset, bytes), bytes};
  }
  void renew(std::size_t offset) const { gpus_.renew_pages(base_ + offset); }

 private:
  cuda_double& gpus_;
  const int device_;
  std::byte* const base_;
};

/// Moves bytes between the same places of both.
awaitable<void> transfer(peers& all, const segment& from, const segment& to, std::size_t offset,
                         std::size_t bytes, std::uint64_t seed) {
  fill(from.on_host(offset, bytes), seed);
  background receiver(all.to->get_executor(), all.to->recv(0, to.view(offset, bytes)));
  co_await all.from->send(0, from.view(offset, bytes));
  const std::size_t came = co_await receiver.result();
  EXPECT_EQ(came, bytes);
  EXPECT_EQ(first_wrong(to.on_host(offset, bytes), seed), std::nullopt) << offset << ", " << bytes;
  co_await turns(20);
}

std::size_t copied(peers& all) {
  return all.gpus.seen().copied_bytes;
}

/// Descriptors of this process.
std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

PEER_TEST(PagesAreReadAndWrittenInPlace) {
  const segment out(all.gpus, 0), in(all.gpus, 1);
  std::size_t descriptors = 0;
  std::uint64_t seed = 1;
  for (const auto& [offset, bytes] :
       {std::pair{std::size_t{0}, std::size_t{100}}, std::pair{3 * unit - 50, std::size_t{100}},
        std::pair{3 * unit - 1000, 2 * unit}, std::pair{std::size_t{0}, 6 * unit},
        std::pair{4 * unit, 2 * unit}, std::pair{3 * unit, unit}}) {
    for (int i = 0; i < 3; ++i) co_await transfer(all, out, in, offset, bytes, ++seed);
    const std::size_t before = copied(all);
    co_await transfer(all, out, in, offset, bytes, ++seed);
    EXPECT_EQ(copied(all) - before, bytes) << "nothing by way of the host, " << offset;
    // All pages are mapped, by the simulation with a descriptor for each.
    if (bytes == 6 * unit) descriptors = open_descriptors();
  }
  EXPECT_EQ(all.gpus.calls("cuIpcGetMemHandle"), 0U);
  EXPECT_EQ(all.gpus.open().page_handles, 0U);
  EXPECT_EQ(open_descriptors(), descriptors);
}

PEER_TEST(PagesThatReplaceOthersAtTheirAddressAreDescribedAgain) {
  const segment out(all.gpus, 0), in(all.gpus, 1);
  std::uint64_t seed = 1;
  for (const std::size_t renewed : {std::size_t{0}, 3 * unit, 5 * unit}) {
    for (int i = 0; i < 3; ++i) co_await transfer(all, out, in, 0, 6 * unit, ++seed);
    out.renew(renewed);
    in.renew(renewed);
    for (int i = 0; i < 3; ++i) co_await transfer(all, out, in, 0, 6 * unit, ++seed);
    const std::size_t before = copied(all);
    co_await transfer(all, out, in, 0, 6 * unit, ++seed);
    EXPECT_EQ(copied(all) - before, 6 * unit);
    // A view that does not begin in the first pages, of which one is new.
    out.renew(4 * unit);
    co_await transfer(all, out, in, 3 * unit, 3 * unit, ++seed);
  }
}

PEER_TEST(PagesThatCannotBeSharedAreForwarded) {
  for (const char* const call :
       {"cuMemExportToShareableHandle", "cuMemImportFromShareableHandle", "cuMemMap",
        "cuMemSetAccess", "cuMemAddressReserve", "cuMemRetainAllocationHandle"}) {
    const segment out(all.gpus, 0), in(all.gpus, 1);
    for (const int each : {1, 2}) all.gpus.fail(call, each, 801);
    for (int i = 0; i < 4; ++i) {
      co_await transfer(all, out, in, 0, 2 * unit, 7 + static_cast<std::uint64_t>(i));
    }
    EXPECT_EQ(all.gpus.open().openings, 0U) << call;
    EXPECT_EQ(all.gpus.open().page_handles, 0U) << call;
  }
}

PEER_TEST(PagesAndOtherMemoryInOneChannel) {
  const segment out(all.gpus, 0), in(all.gpus, 1);
  co_await all.warm_up();
  for (std::uint64_t i = 0; i < 5; ++i) {
    co_await transfer(all, out, in, unit, 4 * unit, i);
    co_await all.transfer(20'000, i);
  }
  EXPECT_EQ(all.gpus.open().openings, 4U) << "two each way";
}

/// A driver without these functions.
TEST(PeerCopies, PagesOfAnOldDriverAreForwarded) {
  gpus_of_this_test().table().retain_pages = nullptr;
  const copying_body run = [](peers& all) -> awaitable<void> {
    const segment out(all.gpus, 0), in(all.gpus, 1);
    for (int i = 0; i < 3; ++i) co_await transfer(all, out, in, 0, 6 * unit, 4);
    EXPECT_GT(all.gpus.calls("cuIpcGetMemHandle"), 0U);
    EXPECT_EQ(all.gpus.calls("cuMemMap"), 0U);
  };
  run_test(with_peers(run), drive::by_asio, 60s);
}

}  // namespace
}  // namespace tandem::test
