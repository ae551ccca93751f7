#include "devices/staging.hpp"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <tandem/log.hpp>

namespace tandem::devices {
namespace {

/// While it exists, this thread's allocations prefer a NUMA node. No effect where the node is
/// unknown or the kernel refuses: memory elsewhere is only slower.
class preferred_node {
 public:
  explicit preferred_node(int node) noexcept {
    if (node < 0 || static_cast<std::size_t>(node) >= bits) return;
    if (::syscall(SYS_get_mempolicy, &mode_, before_.data(), bits, nullptr, 0) != 0) return;
    std::array<unsigned long, words> only{};
    only[static_cast<std::size_t>(node) / word_bits] |=
        1UL << static_cast<std::size_t>(node) % word_bits;
    is_set_ = ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, only.data(), bits) == 0;
  }
  ~preferred_node() {
    if (is_set_) ::syscall(SYS_set_mempolicy, mode_, before_.data(), bits);
  }
  preferred_node(const preferred_node&) = delete;
  preferred_node& operator=(const preferred_node&) = delete;

 private:
  static constexpr std::size_t word_bits = 8 * sizeof(unsigned long);
  static constexpr std::size_t bits = 1024;  // the largest MAX_NUMNODES of kernels
  static constexpr std::size_t words = bits / word_bits;

  std::array<unsigned long, words> before_{};
  int mode_ = MPOL_DEFAULT;
  bool is_set_ = false;
};

}  // namespace

staging::ring::ring(accelerator& near, std::size_t bytes, bool is_shared) : slots(bytes) {
  const preferred_node while_allocating(near.facts().numa_node);
  if (is_shared) {
    try {
      shared.emplace(near, std::make_shared<shared_pages>("tandem-staging", bytes));
      data = shared->host_address();
      return;
    } catch (const error& why) {
      log(log_level::info, "devices",
          fmt::format("staging on {} is not shared with the peer: {}", near.text(), why.what()));
    }
  }
  own = pinned_buffer(near, bytes);
  data = own.data();
}

std::byte* staging::take(accelerator& device, std::size_t bytes) {
  std::optional<ring>& in = rings_[vendor_index(device.kind())];
  if (!in) {
    in.emplace(device, capacity_bytes_, is_shared_);
    in->registered = register_({in->data, capacity_bytes_});
  }
  const std::optional<std::size_t> first = in->slots.take(bytes);
  return first ? in->data + *first : nullptr;
}

void staging::give_back(memory_kind kind, const std::byte* which) noexcept {
  rings_[vendor_index(kind)]->slots.give_back(static_cast<std::size_t>(offset_of(kind, which)));
}

std::optional<shared_pages::location> staging::shared_at(memory_kind kind) const noexcept {
  const std::optional<ring>& in = rings_[vendor_index(kind)];
  if (!in || !in->shared) return std::nullopt;
  return in->shared->pages().where();
}

std::uint64_t staging::offset_of(memory_kind kind, const std::byte* which) const noexcept {
  return static_cast<std::uint64_t>(which - rings_[vendor_index(kind)]->data);
}

}  // namespace tandem::devices
