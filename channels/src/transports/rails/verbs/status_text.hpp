#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string_view>

namespace tandem::verbs {

/// Explanation of a completion status.
struct status_text {
  std::string_view what;
  std::string_view cause;   ///< the usual cause
  std::string_view advice;  ///< what to do
};

/// For any value, unknown ones included.
status_text text_for(ibv_wc_status status) noexcept;

/// The object of an asynchronous event: what `ibv_async_event::element` holds.
enum class event_subject : std::uint8_t {
  queue_pair,
  completion_queue,
  shared_receive_queue,
  work_queue,
  port,
  device,
};
std::string_view name(event_subject subject) noexcept;

/// Explanation of an asynchronous event of a device.
struct event_text {
  std::string_view what;
  event_subject subject = event_subject::device;
  bool is_fatal = false;    ///< the object is unusable; a port until it is active again
  std::string_view advice;  ///< what to do; empty: nothing
};

/// For any value, unknown ones included.
event_text text_for(ibv_event_type event) noexcept;

}  // namespace tandem::verbs
