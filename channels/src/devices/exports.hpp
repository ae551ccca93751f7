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
/// Of pages that are mapped one after the other (PyTorch's expandable segments) as many are one
/// allocation here as the view lies in; a longer view from the same first page replaces it.
///
/// An allocation is described once. Memory that was freed and allocated again at the same address
/// is another allocation: drivers number them. Freed ones are found whenever a new one is added,
/// and retired before the peer receives the description of what replaces them.
class exports {
 public:
  explicit exports(peer_access by, std::size_t max_entries = max_shared_allocations)
      : by_(by), max_entries_(max_entries) {}

  /// Location of a view in an allocation that the peer has open. Nothing: forward it, for now or
  /// always; a new allocation is described to the peer. @param of  the device of the view
  std::optional<shared_location> find(accelerator& of, const const_view& view);

  /// Sent to the peer, in order: the description of an allocation, or the id of a retired one.
  struct update {
    std::optional<shared_allocation> described;
    std::uint32_t retired = 0;
  };
  bool next(update& into);
  bool has_updates() const noexcept { return !updates_.empty(); }

  /// Retires what was freed, as each new allocation does.
  void retire_freed();

  /// The peer's answer to a description. Ignored for one that was retired meanwhile. False: it was
  /// never described.
  bool opened(std::uint32_t id);
  bool refused(std::uint32_t id, const std::string& why);

  /// How many are open or pending.
  std::size_t described() const noexcept;

 private:
  enum class state : std::uint8_t { free, not_shareable, pending, open };
  struct entry {
    state at = state::free;
    std::uint16_t generation = 0;
    accelerator* of = nullptr;
    std::uint64_t number = 0;  // the driver's allocation id
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;
    struct part {
      std::uint64_t number = 0;
      std::uint64_t bytes = 0;
    };
    std::vector<part> parts = {};  // of pages, by address; empty: it has an IPC handle
    std::vector<detail::owned_descriptor> descriptors = {};  // until the peer has answered
  };

  entry& add(accelerator& of, const const_view& view, std::uint64_t number);
  bool describe_pages(entry& e, const const_view& view, shared_allocation& made);
  static bool covers(const entry& e, const const_view& view, std::uint64_t number) noexcept;
  std::uint32_t take_slot();
  void retire(std::uint32_t slot);
  entry* find_pending(std::uint32_t id) noexcept;
  std::uint32_t id_of(const entry& e) const noexcept {
    return std::uint32_t{e.generation} << 16 | static_cast<std::uint32_t>(&e - entries_.data());
  }
  void mark_not_shareable(entry& e, std::string_view why);

  const peer_access by_;
  const std::size_t max_entries_;
  std::vector<entry> entries_;
  std::unordered_map<std::uint64_t, std::uint32_t> slots_;  // by the driver's allocation id
  std::deque<update> updates_;
  std::uint64_t uses_ = 0;
};

}  // namespace tandem::devices
