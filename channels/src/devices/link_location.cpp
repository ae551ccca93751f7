// Memory that the peer's copies access without messages of this link, and the peer's for copies
// here.
#include <limits>

#include "devices/link.hpp"

namespace tandem::devices {
namespace {

/// 0 is an allocation's id, too.
constexpr std::uint64_t id_offset = 1;

class mapped_allocation final : public mapped_memory {
 public:
  mapped_allocation(imports::source from, std::size_t bytes, const accelerator& by)
      : from_(std::move(from)), bytes_(bytes), kind_(by.kind()), device_(by.device()) {}
  mutable_view view() const noexcept override {
    // NOLINTNEXTLINE: what is imported is read or written
    return {const_cast<void*>(from_.from), bytes_, kind_, device_};
  }

 private:
  const imports::source from_;
  const std::size_t bytes_;
  const memory_kind kind_;
  const int device_;
};

}  // namespace

memory_location link::locate_memory(const const_view& memory) {
  if (!exports_ || is_over() || memory.kind == memory_kind::host) return {};
  try {
    copier& by = copiers_->of(memory);
    if (default_copier_ == nullptr) default_copier_ = &by;
    const auto found = exports_->find(by.of(), memory);
    flush();
    complete_soon();
    if (!found) return {};
    return {found->allocation + id_offset, found->offset, 0, 0};
  } catch (const error&) {
    return {};  // messages report the error
  }
}

std::unique_ptr<const mapped_memory> link::map_memory(const memory_location& at, std::size_t bytes,
                                                      accelerator& by) {
  if (!imports_ || is_over() || at[0] < id_offset) return nullptr;
  if (at[0] - id_offset > std::numeric_limits<std::uint32_t>::max()) return nullptr;
  std::string why;
  try {
    const shared_location where{static_cast<std::uint32_t>(at[0] - id_offset), at[1]};
    auto found = imports_->find(where, bytes, by, why);
    if (!found) return nullptr;
    return std::make_unique<mapped_allocation>(std::move(*found), bytes, by);
  } catch (const error&) {
    return nullptr;
  }
}

void link::retire_freed_memory() {
  if (!exports_ || is_over()) return;
  exports_->retire_freed();
  flush();
  complete_soon();
}

}  // namespace tandem::devices
