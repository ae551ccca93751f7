#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string_view>

namespace tandem::verbs {

/// What a completion's status means to a person.
struct status_words {
  std::string_view what;
  std::string_view cause;   ///< what usually stands behind it
  std::string_view advice;  ///< what to do
};

/// Of any value: one that nobody knows has words too.
status_words words_for(ibv_wc_status status) noexcept;

/// Whom an asynchronous event is about: what `ibv_async_event::element` holds.
enum class concerned : std::uint8_t {
  queue_pair,
  completion_queue,
  shared_receive_queue,
  work_queue,
  port,
  device,
};
std::string_view name(concerned who) noexcept;

/// What an asynchronous event of a device means.
struct event_words {
  std::string_view what;
  concerned who = concerned::device;
  bool is_fatal = false;    ///< it carries nothing more; a port until it is active again
  std::string_view advice;  ///< what to do; empty: nothing
};

/// Of any value: one that nobody knows has words too.
event_words words_for(ibv_event_type event) noexcept;

}  // namespace tandem::verbs
