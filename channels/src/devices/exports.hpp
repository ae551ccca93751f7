#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "devices/sharing.hpp"

namespace tandem::devices {

/// The allocations of this end that one peer may read, without I/O: which allocation a view is in,
/// and whether the peer has opened it.
///
/// | state         | meaning                                                   | its messages     |
/// |---------------|-----------------------------------------------------------|------------------|
/// | free          | no allocation in this slot                                |                  |
/// | not_shareable | the driver does not export it, or the peer cannot open it | are forwarded    |
/// | pending       | described to the peer, no answer yet                      | are forwarded    |
/// | open          | the peer has opened it                                    | go by references |
///
/// An allocation is described once. Memory that was freed and allocated again at the same address
/// is another allocation: drivers number them. Freed ones are found whenever a new one is added,
/// and retired before the peer receives the description of what replaces them.
class exports {
 public:
  explicit exports(reading by, std::size_t most = most_shared_allocations) : by_(by), most_(most) {}

  /// Location of a view in an allocation that the peer has open. Nothing: forward it, for now or
  /// always; a new allocation is described to the peer. @param of  the device of the view
  std::optional<shared_place> find(accelerator& of, const const_view& view);

  /// Sent to the peer, in order: the description of an allocation, or the id of a retired one.
  struct news {
    std::optional<shared_allocation> described;
    std::uint32_t retired = 0;
  };
  bool next(news& into);
  bool has_news() const noexcept { return !news_.empty(); }

  /// The peer's answer to a description. Ignored for one that was retired meanwhile. False: it was
  /// never described.
  bool opened(std::uint32_t id);
  bool refused(std::uint32_t id, const std::string& why);

  /// How many are open or pending.
  std::size_t described() const noexcept;

 private:
  enum class state : std::uint8_t { free, private_, asked, open };
  struct entry {
    state at = state::free;
    std::uint16_t generation = 0;
    accelerator* of = nullptr;
    std::uint64_t number = 0;  // the driver's allocation id
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;
  };

  entry& add(accelerator& of, const const_view& view, std::uint64_t number);
  std::uint32_t take_slot();
  void take_back(std::uint32_t slot);
  void take_back_what_is_gone();
  entry* find_asked(std::uint32_t id) noexcept;
  std::uint32_t id_of(const entry& e) const noexcept {
    return std::uint32_t{e.generation} << 16 | static_cast<std::uint32_t>(&e - entries_.data());
  }
  void is_private(entry& e, std::string_view why);

  const reading by_;
  const std::size_t most_;
  std::vector<entry> entries_;
  std::unordered_map<std::uint64_t, std::uint32_t> slots_;  // by the driver's allocation id
  std::deque<news> news_;
  std::uint64_t uses_ = 0;
};

}  // namespace tandem::devices
