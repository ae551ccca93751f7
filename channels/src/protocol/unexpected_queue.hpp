#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/copy_pool.hpp"
#include "protocol/frame.hpp"
#include "protocol/stable_queue.hpp"

namespace tandem::protocol {

/// A message without a posted receive: an eager one with its bytes, or an announcement.
struct unexpected_message {
  frame header;
  copy_pool::memory data;
  operation* claimed = nullptr;  // a receive posted while the bytes still arrive
  bool complete = false;
  bool unreadable = false;  // the sender could not read the payload
};

/// Unexpected messages that were taken out of their queues, and memory for their bytes, kept for
/// later ones.
class unexpected_pool {
 public:
  using entry = std::unique_ptr<unexpected_message>;

  entry take(const frame& header) {
    if (spare_.empty()) spare_.push_back(std::make_unique<unexpected_message>());
    entry taken = std::move(spare_.back());
    spare_.pop_back();
    taken->header = header;
    return taken;
  }
  entry take_with_bytes(const frame& header) {
    entry taken = take(header);
    taken->data = copies_.take(header.payload_bytes);
    return taken;
  }
  void give_back(entry used) {
    copies_.give_back(std::move(used->data), used->header.payload_bytes);
    if (spare_.size() == max_spare) return;
    *used = {};
    spare_.push_back(std::move(used));
  }

 private:
  static constexpr std::size_t max_spare = 1024;

  copy_pool copies_;
  std::vector<entry> spare_;
};

/// The unexpected messages of one flow, in order. A receive may claim an eager one that is still
/// arriving; the claimed ones come first.
class unexpected_queue {
 public:
  /// The oldest that no receive has claimed; null if there is none.
  unexpected_message* front() noexcept {
    return queue_.size() > claimed_ ? queue_[claimed_].get() : nullptr;
  }
  void pop_front(unexpected_pool& pool) { take_out(claimed_, pool); }
  void claim_front(operation& by) noexcept { queue_[claimed_++]->claimed = &by; }

  unexpected_message& push_eager(const frame& f, unexpected_pool& pool) {
    queue_.push_back(pool.take_with_bytes(f));
    return *queue_[queue_.size() - 1];
  }
  void push_announcement(const frame& f, unexpected_pool& pool) {
    queue_.push_back(pool.take(f));
    queue_[queue_.size() - 1]->complete = true;
  }

  /// True also after the receive that claimed the message was cancelled.
  bool is_claimed(const unexpected_message& which) noexcept {
    return find(which, claimed_) < claimed_;
  }
  void remove(const unexpected_message& which, unexpected_pool& pool) {
    const std::size_t index = find(which, queue_.size());
    if (index < claimed_) --claimed_;
    take_out(index, pool);
  }
  /// This receive is cancelled: the messages that it claimed are consumed when they are complete.
  void cancel_claims(const operation& of) noexcept {
    queue_.for_each([&of](const auto& each) {
      if (each->claimed == &of) each->claimed = nullptr;
    });
  }
  /// False: no such announcement.
  bool remove_announcement(std::uint64_t message_id, unexpected_pool& pool) {
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      if (queue_[i]->header.message_id != message_id) continue;
      take_out(i, pool);
      return true;
    }
    return false;
  }
  void remove_announcements(unexpected_pool& pool) {
    for (std::size_t i = queue_.size(); i-- > 0;) {
      if (queue_[i]->header.type == frame_type::announce) take_out(i, pool);
    }
  }

 private:
  void take_out(std::size_t index, unexpected_pool& pool) {
    pool.give_back(std::move(queue_[index]));
    queue_.erase(index);
  }
  /// `count` where it is not among the first `count`.
  std::size_t find(const unexpected_message& which, std::size_t count) noexcept {
    std::size_t index = 0;
    while (index < count && queue_[index].get() != &which) ++index;
    return index;
  }

  stable_queue<std::unique_ptr<unexpected_message>> queue_;
  std::size_t claimed_ = 0;
};

}  // namespace tandem::protocol
