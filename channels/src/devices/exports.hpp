#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "devices/sharing.hpp"

namespace tandem::devices {

/// What one peer may read of this end's device memory, without I/O: which allocation a view lies
/// in, whether the peer has heard of it and could open it.
///
/// An allocation is described once and referred to when the peer has confirmed that it can read it;
/// until then, and where it cannot, messages from it are forwarded. Memory that was freed and made
/// anew at the same address is another allocation: the driver numbers them. What is gone is found
/// whenever an allocation is new, and taken back, before the peer hears of what took its place.
class exports {
 public:
  explicit exports(reading by, std::size_t most = most_shared_allocations) : by_(by), most_(most) {}

  /// Where a view lies in an allocation that the peer can read. Nothing: forward it, now or always;
  /// an allocation seen first is described to the peer. @param of  the device of the view
  std::optional<shared_place> find(accelerator& of, const const_view& view);

  /// For the peer, in this order: an allocation, or the id of one that is no more.
  struct news {
    std::optional<shared_allocation> described;
    std::uint32_t retired = 0;
  };
  bool next(news& into);
  bool has_news() const noexcept { return !news_.empty(); }

  /// What the peer says to a description. Of one that was taken back meanwhile it means nothing.
  /// False: it was never described.
  bool opened(std::uint32_t id);
  bool refused(std::uint32_t id, const std::string& why);

  /// How many the peer has open or was asked to open.
  std::size_t described() const noexcept;

 private:
  enum class state : std::uint8_t { free, private_, asked, open };
  struct entry {
    state at = state::free;
    std::uint16_t generation = 0;
    accelerator* of = nullptr;
    std::uint64_t number = 0;  // the driver's
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
  std::unordered_map<std::uint64_t, std::uint32_t> slots_;  // by the driver's number
  std::deque<news> news_;
  std::uint64_t uses_ = 0;
};

}  // namespace tandem::devices
