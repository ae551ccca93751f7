#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string_view>

namespace tandem::verbs {

/// Explanation of a completion status.
struct status_words {
  std::string_view what;
  std::string_view cause;   ///< the usual cause
  std::string_view advice;  ///< what to do
};

/// For any value, unknown ones included.
status_words words_for(ibv_wc_status status) noexcept;

/// The object of an asynchronous event: what `ibv_async_event::element` holds.
enum class concerned : std::uint8_t {
  queue_pair,
  completion_queue,
  shared_receive_queue,
  work_queue,
  port,
  device,
};
std::string_view name(concerned who) noexcept;

/// Explanation of an asynchronous event of a device.
struct event_words {
  std::string_view what;
  concerned who = concerned::device;
  bool is_fatal = false;    ///< the object is unusable; a port until it is active again
  std::string_view advice;  ///< what to do; empty: nothing
};

/// For any value, unknown ones included.
event_words words_for(ibv_event_type event) noexcept;

}  // namespace tandem::verbs
