#include "streams/stream_lane.hpp"

#include <atomic>
#include <tandem/detail/stream_word.hpp>
#include <tandem/log.hpp>

namespace tandem::detail {

stream_words::stream_words(accelerator& of, void* memory, std::shared_ptr<const void> keep)
    : of_(of), keep_(std::move(keep)), slots_(static_cast<slot*>(memory)) {
  of_.pin(slots_, bytes);
  try {
    device_address_ = static_cast<std::byte*>(of_.device_pointer(slots_));
  } catch (const error&) {
    of_.unpin(slots_);
    throw;
  }
}

stream_words::~stream_words() {
  of_.unpin(slots_);
}

bool stream_words::is_done(std::uint32_t number) const noexcept {
  return has_reached(done(number), number);
}

void* stream_words::for_streams(const std::uint32_t& word) const noexcept {
  const auto* const first = reinterpret_cast<const std::byte*>(slots_);
  return device_address_ + (reinterpret_cast<const std::byte*>(&word) - first);
}

stream_lane::stream_lane(accelerator& of, bool is_send, std::unique_ptr<stream_words> words)
    : of_(of), is_send_(is_send), words_(std::move(words)), stream_(of) {}

stream_lane::~stream_lane() {
  if (becomes_idle()) return;
  log(log_level::warning, "streams",
      of_.text() + ": a stream of messages is still busy a second after their end");
  keep_for_ever(std::shared_ptr<stream_words>(std::move(words_)));
  for (queued_message& each : in_flight_) {
    if (each.into) keep_for_ever(std::shared_ptr<const mapped_memory>(std::move(each.into)));
  }
}

/// Within the limit. A device that has failed does nothing any more.
bool stream_lane::becomes_idle() noexcept {
  accelerator::event end = nullptr;
  bool is_reached = false;
  try {
    end = of_.make_event();
    of_.record(end, stream());
    is_reached = passes_soon([&] {
      release_all();
      return of_.is_complete(end);
    });
  } catch (const error&) {
    is_reached = true;
  }
  if (end != nullptr) of_.free_event(end);
  return is_reached;
}

bool stream_lane::has_room() noexcept {
  while (!in_flight_.empty() && words_->is_done(in_flight_.front().number)) in_flight_.pop_front();
  return in_flight_.size() < stream_words::slots;
}

void stream_lane::queue_receive() {
  const std::uint32_t number = next_number();
  of_.write_value(stream(), words_->for_streams(words_->ready(number)), number);
  last_ = number;
  in_flight_.push_back({number, nullptr});
  of_.await_value(stream(), words_->for_streams(words_->done(number)), number);
}

void stream_lane::queue_send(std::uint32_t number, const const_view& from,
                             std::unique_ptr<const mapped_memory> into) {
  of_.await_value(stream(), words_->for_streams(words_->ready(number)), number);
  void* const target = into ? into->view().data : nullptr;
  in_flight_.push_back({number, std::move(into)});
  if (target != nullptr) of_.copy(target, from.data, from.bytes, stream());
  of_.write_value(stream(), words_->for_streams(words_->done(number)), number);
}

void stream_lane::release(std::uint32_t number) noexcept {
  std::uint32_t& word = is_send_ ? words_->ready(number) : words_->done(number);
  std::atomic_ref(word).store(number, std::memory_order_release);
}

void stream_lane::release_all() noexcept {
  for (const queued_message& each : in_flight_) release(each.number);
}

}  // namespace tandem::detail
