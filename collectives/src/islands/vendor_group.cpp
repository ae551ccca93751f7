#include "islands/vendor_group.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <boost/asio/post.hpp>
#include <mutex>
#include <tandem/collectives.hpp>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>
#include <thread>
#include <utility>

#include "communicator/group.hpp"

namespace tandem::detail {
namespace {

/// Shared with the thread that initialises the library, which cannot be cancelled.
struct start_state {
  std::mutex mutex;
  bool is_over = false;
  bool is_abandoned = false;  ///< abandoned: the thread aborts the communicator it has made
  nc::result status = nc::success;
  nc::comm made = nullptr;
};

/// @param first  as of `vendor_group::start`
/// @param tell  notified on the executor when the initialisation has ended, unless it is abandoned
void start_library(const std::shared_ptr<start_state>& state, accelerator& device, const nccl& lib,
                   nc::unique_id id, int rank, int size, std::function<nc::result(nc::comm)> first,
                   const asio::any_io_executor& executor, async_condition& changed) {
  auto start = [state, &device, &lib, id, rank, size, first = std::move(first), executor,
                &changed] {
    nc::comm made = nullptr;
    nc::result status = nc::system_error;
    try {
      const device_guard on(device);
      status = lib.init_rank(&made, size, id, rank);
      if (status == nc::success && first) status = first(made);
    } catch (const error&) {
    }
    {
      const std::lock_guard held(state->mutex);
      state->is_over = true;
      state->status = status;
      if (!state->is_abandoned) {
        state->made = made;
        asio::post(executor, [state, &changed] {
          if (!state->is_abandoned) changed.notify_all();
        });
        return;
      }
    }
    if (made == nullptr) return;
    try {
      const device_guard on(device);
      lib.abort(made);
    } catch (const error&) {
    }
  };
  std::thread starter = start_threads("no thread to initialise the vendor's library with",
                                      [&start] { return std::thread(std::move(start)); });
  ::pthread_setname_np(starter.native_handle(), "tandem-start");
  starter.detach();
}

}  // namespace

/// Waits for the initialisation; on destruction takes over the communicator made so far, if any,
/// and abandons the rest.
class vendor_group::wait_for_start {
 public:
  wait_for_start(vendor_group& of, const asio::any_io_executor& executor)
      : of_(of), changed(executor) {
    of_.start_changed_ = &changed;
  }
  ~wait_for_start() {
    of_.start_changed_ = nullptr;
    const std::lock_guard held(state->mutex);
    state->is_abandoned = true;
    of_.comm_ = state->made;
  }
  wait_for_start(const wait_for_start&) = delete;
  wait_for_start& operator=(const wait_for_start&) = delete;

  bool is_over() const {
    const std::lock_guard held(state->mutex);
    return state->is_over;
  }
  nc::result status() const {
    const std::lock_guard held(state->mutex);
    return state->status;
  }

 private:
  vendor_group& of_;

 public:
  const std::shared_ptr<start_state> state = std::make_shared<start_state>();
  async_condition changed;
};

vendor_group::vendor_group(accelerator& device, const nccl& lib, int rank, int size)
    : device_(device), lib_(lib), rank_(rank), size_(size), stream_(device) {}

/// Aborts, because kernels on the stream may wait for a lost rank.
vendor_group::~vendor_group() {
  if (abort_thread_.joinable()) abort_thread_.join();
  if (comm_ == nullptr) return;
  const device_guard on(device_);
  lib_.abort(comm_);
}

/// While they wait for other ranks, the library's kernels poll an abort flag. The abort itself
/// waits for all work of the device, including that of other aborted groups, so each abort needs a
/// thread.
void vendor_group::abort_group(const error& why) {
  if (lost_) return;
  lost_ = why;
  if (start_changed_ != nullptr) start_changed_->notify_all();
  const nc::comm comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  const auto abort = [this, comm] {
    try {
      const device_guard on(device_);
      lib_.abort(comm);
    } catch (const error&) {  // the device is lost, so nothing runs on it any more
    }
  };
  try {
    abort_thread_ = start_threads("no thread to abort the vendor's communicator with",
                                  [&abort] { return std::thread(abort); });
  } catch (const error& failure) {
    log(log_level::error, "islands", failure.what());  // its kernels wait until the process ends
  }
}

void vendor_group::throw_if_failed() const {
  if (lost_) throw error(*lost_);
}

void vendor_group::check_status(nc::result status, const char* call) const {
  if (status == nc::success || status == nc::in_progress) return;
  const char* const last = lib_.last_error != nullptr ? lib_.last_error(comm_) : nullptr;
  throw error(errc::device_failed,
              fmt::format("{} on {}, rank {} of an island of {}: {}{}{}", call, device_.text(),
                          rank_, size_, lib_.error_string(status),
                          last != nullptr && *last != 0 ? ": " : "", last != nullptr ? last : ""),
              "set NCCL_DEBUG=WARN for the library's diagnostics");
}

asio::awaitable<void> vendor_group::start(communicator& inside) {
  nc::unique_id id{};
  if (rank_ == 0) check_status(lib_.get_unique_id(&id), "ncclGetUniqueId");
  const mutable_view bytes(id.bytes);
  co_await tandem::broadcast(inside, bytes, 0);
  throw_if_failed();
  const asio::any_io_executor executor = inside.get_executor();
  co_await start(executor, id, inside.internals()->options().operation_timeout);
}

std::function<nc::result(nc::comm)> vendor_group::first_message(void* byte, bool is_sender) const {
  return [&lib = lib_, byte, is_sender, peer = peer(), on = stream()](nc::comm over) {
    return is_sender ? lib.send(byte, 1, nc::uint8, peer, over, on)
                     : lib.recv(byte, 1, nc::uint8, peer, over, on);
  };
}

asio::awaitable<void> vendor_group::start(asio::any_io_executor executor, nc::unique_id id,
                                          std::chrono::milliseconds limit,
                                          std::function<nc::result(nc::comm)> first) {
  nc::result status = nc::success;
  bool is_late = false;
  {
    wait_for_start waiting(*this, executor);
    asio::steady_timer timer(executor, limit);
    timer.async_wait([&, state = waiting.state](const boost::system::error_code& cancelled) {
      if (cancelled || state->is_abandoned) return;
      is_late = true;
      waiting.changed.notify_all();
    });
    start_library(waiting.state, device_, lib_, id, rank_, size_, std::move(first), executor,
                  waiting.changed);
    while (!waiting.is_over() && !lost_ && !is_late) co_await waiting.changed.wait();
    is_late = !waiting.is_over() && !lost_;
    status = waiting.status();
  }
  throw_if_failed();
  if (is_late) {
    throw no_answer(fmt::format("ncclCommInitRank on {}, rank {} of an island of {}",
                                device_.text(), rank_, size_),
                    limit,
                    "do its ranks reach each other (NCCL_SOCKET_IFNAME)? NCCL_DEBUG=INFO shows "
                    "what the library waits for");
  }
  check_status(status, "ncclCommInitRank");
}

}  // namespace tandem::detail
