#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "devices/mapping.hpp"
#include "devices/sharing.hpp"

namespace tandem::devices {

/// What this end may read of a peer's device memory: the allocations that it has described, mapped
/// for each device here that reads them.
///
/// A description is answered when a device here is known that will read: to open it takes that
/// device into use, which costs memory and must not happen on devices of others.
class imports {
 public:
  explicit imports(reading by) : by_(by) {}

  /// False: no correct peer says this; `why` tells what.
  bool describe(const shared_allocation& what, std::string& why);
  /// Closed as soon as nothing reads it any more. False as above.
  bool retire(std::uint32_t id, std::string& why);

  /// The answer to a description, opened for `home`. @param why  empty: it is open
  struct answer {
    std::uint32_t id = 0;
    std::string why;
  };
  bool next(accelerator& home, answer& into);
  bool has_unanswered() const noexcept { return !unanswered_.empty(); }

  /// Bytes of a peer as copies of one device here reach them.
  struct source {
    const void* from = nullptr;
    std::shared_ptr<const void> keep;  ///< to be held until nothing reads there
    const std::byte* here = nullptr;   ///< where processors read it; null: they do not
  };
  /// Where a reference leads. Nothing: `why` tells what no correct peer does.
  /// @par Errors thrown: `device_failed`, `unsupported_memory`: `by` cannot reach it.
  std::optional<source> find(const shared_place& at, std::uint64_t bytes, accelerator& by,
                             std::string& why);

  /// Everything is closed that nothing reads.
  void clear() noexcept;
  std::size_t open() const noexcept;

 private:
  struct entry {
    shared_allocation what;
    std::map<accelerator*, std::shared_ptr<const mapping>> maps;  // null: reached in place
  };

  entry* find_entry(std::uint32_t id) noexcept;
  const std::shared_ptr<const mapping>& map(entry& of, accelerator& by);

  const reading by_;
  std::vector<std::unique_ptr<entry>> entries_;  // by slot
  std::deque<std::uint32_t> unanswered_;
};

}  // namespace tandem::devices
