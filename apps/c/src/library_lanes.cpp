// How the lanes of a group are made.
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/log.hpp>
#include <tandem/parallel.hpp>
#include <tandem/stream_messages.hpp>
#include <thread>
#include <utility>

#include "group_of_ranks.hpp"
#include "job_state.hpp"
#include "library_calls.hpp"
#include "message_lane.hpp"
#include "status.hpp"

namespace tandem::c {
namespace {

constexpr std::uint16_t introduction_tag = own_tag;
constexpr const char* not_allowed = "the ranks may not use their vendor's library";

}  // namespace

void library_calls::start_lanes(const library_call& first) {
  const bool is_message = first.peer != library_call::all_ranks;
  lanes_[{first.peer, first.is_send}].at = lane::phase::starting;
  if (is_message) lanes_[{first.peer, !first.is_send}].at = lane::phase::starting;
  using ordering = operation_state::ordering;
  auto introduction = std::make_shared<operation_state>(
      group_.loop(), is_message ? ordering::point_to_point : ordering::collective, std::nullopt);
  library_call like;
  like.peer = first.peer;
  like.side = first.side;
  group_.submit(std::move(introduction), [self = shared_from_this(), like](operation_state&) {
    return self->make_lanes(like);
  });
}

asio::awaitable<void> library_calls::make_lanes(library_call like) {
  // The caller holds the lock.
  co_await asio::post(group_.loop().executor(), asio::use_awaitable);
  std::exception_ptr failure;
  try {
    co_await try_make_lanes(like);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return;
  fail(as_error(failure));
  std::rethrow_exception(failure);
}

asio::awaitable<void> library_calls::try_make_lanes(const library_call& like) {
  const accelerator& device = like.side->on();
  const island_member mine(device.kind(), device.device(), group_.job()->island());
  library_queue::failure_handler lost = when_lost();
  if (like.peer == library_call::all_ranks) {
    library_queue::made made;
    made.text = not_allowed;
    if (may_use_library_) {
      made = co_await library_queue::make(group_.ranks(), mine, std::move(lost));
    }
    std::shared_ptr<kernel_collectives> short_ones;
    if (made.has_levels) {
      made.text += ", channels between them";
      std::unique_ptr<communicator> islands =
          co_await make_island_communicator(group_.ranks(), mine);
      group_.set_islands(std::move(islands));
    } else if (!made.queue) {
      made.text = "channels: " + made.text;
      short_ones =
          co_await kernels_.make_collectives(like.side->on(), made.text, relay_of(*like.side));
    }
    const std::lock_guard lock(mutex_);
    lane& all = set_lane(like, false, std::move(made.text));
    all.queue = std::move(made.queue);
    all.kernels.collectives = std::move(short_ones);
    log_lane(like, all);
  } else {
    library_queue::made_pair made;
    made.text = not_allowed;
    if (may_use_library_) {
      made = co_await library_queue::make_pair(group_.ranks(), like.peer, mine, introduction_tag,
                                               std::move(lost));
    }
    if (made.sends) {
      const std::lock_guard lock(mutex_);
      set_lane(like, true, made.text).queue = std::move(made.sends);
      lane& receives = set_lane(like, false, std::move(made.text));
      receives.queue = std::move(made.receives);
      log_lane(like, receives);
    } else {
      co_await make_message_lanes(like, std::move(made.text));
    }
  }
  co_await start_waiting(like.peer);
}

asio::awaitable<void> library_calls::make_message_lanes(const library_call& like,
                                                        std::string why_no_library) {
  stream_messages::shared_words shared;
  try {
    const auto words = std::make_shared<shm::shared_buffer>(stream_messages::words_bytes);
    shared = {words->view(), words};
  } catch (const error& why) {
    log(log_level::warning, "groups",
        fmt::format("messages with rank {} by channels: {}", like.peer, why.what()));
  }
  stream_messages::failure_handler lost = when_lost();
  stream_messages::made made = co_await stream_messages::make(
      group_.ranks(), like.peer, like.side->on(), std::move(shared), std::move(lost));
  std::string text = "channels: " + why_no_library;
  if (made.messages) {
    text = "copy engines in the order of streams: " + why_no_library;
  } else {
    log(log_level::debug, "groups",
        fmt::format("messages with rank {} not in the order of streams: {}", like.peer,
                    made.why_not));
  }
  const std::shared_ptr<kernel_messages> short_ones = co_await kernels_.make_messages(
      like.peer, like.side->on(), made.messages != nullptr, text, relay_of(*like.side));
  const std::shared_ptr<stream_messages> by = std::move(made.messages);
  message_lane::queued_handler queued = [weak = weak_from_this()](const message_lane::entry& which,
                                                                  accelerator::stream on) {
    const auto self = weak.lock();
    if (!self) return;
    note_received(*which.op, which.call);
    self->note_queued(which.op, which.call.name, which.call.side, which.call.side->mark(on),
                      nullptr);
  };
  message_lane::failure_handler failed = [weak = weak_from_this()](const error& why) {
    const auto self = weak.lock();
    if (!self) return;
    if (why.code() == errc::timed_out) self->group_.job()->fail(why);
    self->fail(why);
  };
  const std::lock_guard lock(mutex_);
  for (const bool is_send : {true, false}) {
    lane& each = set_lane(like, is_send, text);
    if (by) each.messages = std::make_shared<message_lane>(group_, by, is_send, queued, failed);
    each.kernels.messages = short_ones;
    if (!is_send) log_lane(like, each);
  }
}

std::function<void(const error&)> library_calls::when_lost() {
  return [weak = weak_from_this()](const error& why) {
    if (const auto self = weak.lock()) self->fail(why);
  };
}

/// While kernels wait for the loop, streams do: it must not call the driver.
kernel_messages::relay_handlers library_calls::relay_of(const device_side& of) {
  return {.lost = when_lost(),
          .changed = [use = &of.use()](bool do_wait) { use->waiting_streams += do_wait ? 1 : -1; }};
}

library_calls::lane& library_calls::set_lane(const library_call& like, bool is_send,
                                             std::string text) {
  lane& made = lanes_[{like.peer, is_send}];
  made.text = std::move(text);
  return made;
}

void library_calls::log_lane(const library_call& like, const lane& made) const {
  const std::string what = like.peer == library_call::all_ranks
                               ? std::string("collectives")
                               : fmt::format("messages with rank {}", like.peer);
  std::string line =
      fmt::format("{}: {} on device memory by {}", group_.ranks_text(), what, made.text);
  if (like.peer == library_call::all_ranks && !made.queue && staged_.max_bytes() > 0 &&
      !kernels_.take_turns()) {
    line += fmt::format(", up to {} in the order of streams", format_bytes(staged_.max_bytes()));
  }
  // With other devices at hand it is a mistake, and slow.
  const bool is_mistake = made.text.find("share a device") != std::string::npos &&
                          find_accelerators(like.side->on().kind()).found.size() > 1;
  if (is_mistake) {
    log(log_level::warning, "groups",
        line +
            "; give each rank a GPU of its own (torch.cuda.set_device(LOCAL_RANK)) before it "
            "makes tensors");
  } else {
    log(log_level::info, "groups", line);
  }
}

void library_calls::start_waiting_on(lane& on) {
  on.at = lane::phase::ready;
  for (const auto& start : std::exchange(on.waiting, {})) start();
}

/// On a thread of its own: the library connects ranks in their first call, and blocks its caller
/// until the others make it, which need this rank's loop.
asio::awaitable<void> library_calls::start_waiting(int peer) {
  const asio::any_io_executor executor = group_.loop().executor();
  async_condition changed(executor);
  bool is_over = false;
  std::thread starter = start_thread("tandem-connect", [&, self = shared_from_this()]() mutable {
    {
      const std::lock_guard lock(mutex_);
      for (auto& [key, each] : lanes_) {
        if (key.first == peer) start_waiting_on(each);
      }
    }
    asio::post(executor, [&, self = std::move(self)] {
      is_over = true;
      changed.notify_all();
    });
  });
  starter.detach();
  // The thread uses this frame. A job that ends aborts the library, which lets the thread go.
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  while (!is_over) co_await changed.wait();
}

}  // namespace tandem::c
