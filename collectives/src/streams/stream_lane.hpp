#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <tandem/accelerator.hpp>
#include <utility>

namespace tandem::detail {

namespace asio = boost::asio;

/// The words by which the streams of two ranks tell each other about messages in one direction, in
/// memory that both map; pinned for streams here.
///
/// Message n uses slot n modulo `slots`: the receiver's stream writes n into `ready` when its view
/// may be written, the sender's into `done` when it was. Streams compare as a counter that wraps.
class stream_words {
 public:
  struct alignas(64) slot {
    std::uint32_t ready = 0;
    std::uint32_t done = 0;
  };
  static constexpr std::uint32_t slots = 64;
  static constexpr std::size_t bytes = slots * sizeof(slot);

  /// @param keep  owns the memory. @par Errors thrown: `device_failed`.
  stream_words(accelerator& of, void* memory, std::shared_ptr<const void> keep);
  ~stream_words();
  stream_words(const stream_words&) = delete;
  stream_words& operator=(const stream_words&) = delete;

  std::uint32_t& ready(std::uint32_t number) const noexcept { return at(number).ready; }
  std::uint32_t& done(std::uint32_t number) const noexcept { return at(number).done; }
  bool is_done(std::uint32_t number) const noexcept;
  /// The address of a word for streams.
  void* for_streams(const std::uint32_t& word) const noexcept;

 private:
  slot& at(std::uint32_t number) const noexcept { return slots_[number % slots]; }

  accelerator& of_;
  const std::shared_ptr<const void> keep_;
  slot* const slots_;
  std::byte* device_address_ = nullptr;
};

/// The stream of one direction, and what is queued on it.
class stream_lane {
 public:
  stream_lane(accelerator& of, bool is_send, std::unique_ptr<stream_words> words);
  ~stream_lane();
  stream_lane(const stream_lane&) = delete;
  stream_lane& operator=(const stream_lane&) = delete;

  accelerator::stream stream() const noexcept { return stream_.get(); }
  /// Whether a message can be queued: fewer than all slots are in use.
  bool has_room() noexcept;
  /// The number of the next receive: never 0.
  std::uint32_t next_number() const noexcept { return last_ + 1 == 0 ? 1 : last_ + 1; }
  /// Queues the receiver's part. @pre has_room
  void queue_receive();
  /// Queues the sender's part of a receive. @param from  may be empty; then `into` is null.
  /// @pre has_room
  void queue_send(std::uint32_t number, const const_view& from,
                  std::unique_ptr<const mapped_memory> into);
  /// Lets the stream go on behind a receive. @pre no copy writes into its view
  void release(std::uint32_t number) noexcept;
  /// Lets the stream go on behind all, and does so again if it is called again.
  void release_all() noexcept;

 private:
  bool becomes_idle() noexcept;

  accelerator& of_;
  const bool is_send_;
  std::unique_ptr<stream_words> words_;
  device_stream stream_;
  std::uint32_t last_ = 0;  ///< number of the last receive that was queued
  struct queued_message {
    std::uint32_t number;
    std::unique_ptr<const mapped_memory> into;  ///< what the copy writes into; null for receives
  };
  std::deque<queued_message> in_flight_;
};

}  // namespace tandem::detail
