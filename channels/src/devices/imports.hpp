#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/mapping.hpp"
#include "devices/sharing.hpp"

namespace tandem::devices {

/// The device memory of a peer that this end may read: the allocations that the peer has described,
/// mapped for each device here that reads them.
///
/// A description is answered once it is known which device here will read it: opening an allocation
/// creates a context on that device, which costs memory and must not happen on other ranks'
/// devices.
class imports {
 public:
  explicit imports(peer_access by) : by_(by) {}

  /// False: protocol violation, described by `why`.
  bool describe(const shared_allocation& what, std::string& why);
  /// The next pages of an allocation that was described without all of them. False as above.
  bool add_pages(std::uint32_t id, std::span<const described_pages> more, std::string& why);
  /// Closes the allocation as soon as no copy reads it. False as above.
  bool retire(std::uint32_t id, std::string& why);

  /// The answer to a description, opened for `default_device`. `why` is empty if it is open.
  struct answer {
    std::uint32_t id = 0;
    std::string why;
  };
  bool next(accelerator& default_device, answer& into);
  bool has_unanswered() const noexcept { return !unanswered_.empty(); }

  /// Bytes of a peer, addressed for the copies of one device here.
  struct source {
    const void* from = nullptr;
    std::shared_ptr<const void> keep;         ///< held until the last copy is complete
    const std::byte* host_address = nullptr;  ///< for processors; null: they cannot read it
  };
  /// Resolves a reference. Nothing: protocol violation, described by `why`.
  /// @par Errors thrown: `device_failed`, `unsupported_memory`: `by` cannot reach it.
  std::optional<source> find(const shared_location& at, std::uint64_t bytes, accelerator& by,
                             std::string& why);

  /// Closes everything that no copy reads.
  void clear() noexcept;
  std::size_t open() const noexcept;

 private:
  struct entry {
    shared_allocation what;
    std::map<accelerator*, std::shared_ptr<const mapping>> maps;  // null: same process, no mapping
  };

  entry* find_entry(std::uint32_t id) noexcept;
  const std::shared_ptr<const mapping>& map(entry& of, accelerator& by);
  static std::shared_ptr<const mapping> map_pages(const entry& of, accelerator& by);

  const peer_access by_;
  std::vector<std::unique_ptr<entry>> entries_;  // by slot
  std::deque<std::uint32_t> unanswered_;
};

}  // namespace tandem::devices
