#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "protocol/frame.hpp"

namespace tandem::protocol {

/// A message without a posted receive: an eager one with its bytes, or an announcement.
struct unexpected_message {
  frame header;
  std::unique_ptr<std::byte[]> data;
  operation* claimed = nullptr;  // a receive posted while the bytes still arrive
  bool complete = false;
  bool unreadable = false;  // the sender could not read the payload
};

/// The unexpected messages of one flow, in order. A receive may claim an eager one that is still
/// arriving; the claimed ones come first.
class unexpected_queue {
 public:
  /// The oldest that no receive has claimed; null if there is none.
  unexpected_message* front() noexcept {
    return queue_.size() > claimed_ ? queue_[claimed_].get() : nullptr;
  }
  void pop_front() noexcept { queue_.erase(at(claimed_)); }
  void claim_front(operation& by) noexcept { queue_[claimed_++]->claimed = &by; }

  unexpected_message& push_eager(const frame& f) {
    queue_.push_back(std::make_unique<unexpected_message>(
        unexpected_message{f, std::make_unique_for_overwrite<std::byte[]>(f.payload_bytes)}));
    return *queue_.back();
  }
  void push_announcement(const frame& f) {
    queue_.push_back(
        std::make_unique<unexpected_message>(unexpected_message{f, nullptr, nullptr, true}));
  }

  /// True also after the receive that claimed the message was cancelled.
  bool is_claimed(const unexpected_message& which) const noexcept {
    return find(which, claimed_) < claimed_;
  }
  void remove(const unexpected_message& which) noexcept {
    const std::size_t index = find(which, queue_.size());
    if (index < claimed_) --claimed_;
    queue_.erase(at(index));
  }
  /// This receive is cancelled: the messages that it claimed are consumed when they are complete.
  void cancel_claims(const operation& of) noexcept {
    for (auto& each : queue_) {
      if (each->claimed == &of) each->claimed = nullptr;
    }
  }
  /// False: no such announcement.
  bool remove_announcement(std::uint64_t message_id) noexcept {
    const auto same = [message_id](const auto& a) { return a->header.message_id == message_id; };
    const auto found = std::find_if(queue_.begin(), queue_.end(), same);
    if (found == queue_.end()) return false;
    queue_.erase(found);
    return true;
  }
  void remove_announcements() noexcept {
    std::erase_if(queue_, [](const auto& a) { return a->header.type == frame_type::announce; });
  }

 private:
  using queue = std::deque<std::unique_ptr<unexpected_message>>;
  queue::iterator at(std::size_t index) noexcept {
    return queue_.begin() + static_cast<std::ptrdiff_t>(index);
  }
  /// `count` where it is not among the first `count`.
  std::size_t find(const unexpected_message& which, std::size_t count) const noexcept {
    std::size_t index = 0;
    while (index < count && queue_[index].get() != &which) ++index;
    return index;
  }

  queue queue_;
  std::size_t claimed_ = 0;
};

}  // namespace tandem::protocol
