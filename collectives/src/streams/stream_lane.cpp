#include "streams/stream_lane.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <tandem/detail/fence.hpp>
#include <tandem/log.hpp>
#include <thread>
#include <vector>

namespace tandem::detail {
namespace {

constexpr std::chrono::seconds end_limit{1};
constexpr std::chrono::microseconds end_interval{50};

/// What streams may still use when their owner has ended. Never freed.
void keep_for_ever(std::shared_ptr<const void> what) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(mutex);
  all.push_back(std::move(what));
}

}  // namespace

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
  return static_cast<std::int32_t>(load(done(number)) - number) >= 0;
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
  for (auto& each : in_flight_) {
    if (each) keep_for_ever(std::shared_ptr<const mapped_memory>(std::move(each)));
  }
}

/// Within the limit. A device that has failed does nothing any more.
bool stream_lane::becomes_idle() noexcept {
  const auto limit = std::chrono::steady_clock::now() + end_limit;
  accelerator::event end = nullptr;
  bool is_reached = false;
  try {
    end = of_.make_event();
    of_.record(end, stream());
    for (;;) {
      release();
      is_reached = of_.is_complete(end);
      if (is_reached || std::chrono::steady_clock::now() >= limit) break;
      std::this_thread::sleep_for(end_interval);
    }
  } catch (const error&) {
    is_reached = true;
  }
  if (end != nullptr) of_.free_event(end);
  return is_reached;
}

void stream_lane::note_done() noexcept {
  while (!in_flight_.empty() &&
         words_->is_done(last_ + 1 - static_cast<std::uint32_t>(in_flight_.size()))) {
    in_flight_.pop_front();
  }
}

bool stream_lane::has_room() noexcept {
  note_done();
  return in_flight_.size() < stream_words::slots;
}

void stream_lane::queue_send(const const_view& from, std::unique_ptr<const mapped_memory> into) {
  const std::uint32_t number = last_ + 1;
  of_.await_value(stream(), words_->for_streams(words_->ready(number)), number);
  last_ = number;
  const mutable_view target = into->view();
  in_flight_.push_back(std::move(into));
  of_.copy(target.data, from.data, from.bytes, stream());
  of_.write_value(stream(), words_->for_streams(words_->done(number)), number);
}

void stream_lane::queue_receive() {
  const std::uint32_t number = last_ + 1;
  of_.write_value(stream(), words_->for_streams(words_->ready(number)), number);
  last_ = number;
  in_flight_.push_back(nullptr);
  of_.await_value(stream(), words_->for_streams(words_->done(number)), number);
}

/// The last number of each slot: a stream that is late writes a lower one into it at most.
void stream_lane::release() noexcept {
  for (std::uint32_t i = 0; i < stream_words::slots && i < last_; ++i) {
    const std::uint32_t number = last_ - i;
    std::uint32_t& word = is_send_ ? words_->ready(number) : words_->done(number);
    std::atomic_ref(word).store(number, std::memory_order_release);
  }
}

}  // namespace tandem::detail
