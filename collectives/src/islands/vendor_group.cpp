#include "islands/vendor_group.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <boost/asio/post.hpp>
#include <mutex>
#include <tandem/collectives/collectives.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>
#include <thread>
#include <utility>

namespace tandem::detail {
namespace {

/// Shared with the thread that initialises the library, which cannot be cancelled.
struct beginning {
  std::mutex mutex;
  bool is_over = false;
  bool is_left = false;  ///< abandoned: the thread aborts the communicator it has made
  nc::result said = nc::success;
  nc::comm made = nullptr;
};

/// @param tell  notified on the executor when the initialisation has ended, unless it is abandoned
void begin(const std::shared_ptr<beginning>& one, accelerator& device, const nccl& lib,
           nc::unique_id id, int rank, int size, const asio::any_io_executor& executor,
           event& tell) {
  auto start = [one, &device, &lib, id, rank, size, executor, &tell] {
    nc::comm made = nullptr;
    nc::result said = nc::system_error;
    try {
      const device_entered on(device);
      said = lib.init_rank(&made, size, id, rank);
    } catch (const error&) {
    }
    {
      const std::lock_guard held(one->mutex);
      one->is_over = true;
      one->said = said;
      if (!one->is_left) {
        one->made = made;
        asio::post(executor, [one, &tell] {
          if (!one->is_left) tell.notify_all();
        });
        return;
      }
    }
    if (made == nullptr) return;
    try {
      const device_entered on(device);
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
      : of_(of), told(executor) {
    of_.starting_ = &told;
  }
  ~wait_for_start() {
    of_.starting_ = nullptr;
    const std::lock_guard held(one->mutex);
    one->is_left = true;
    of_.comm_ = one->made;
  }
  wait_for_start(const wait_for_start&) = delete;
  wait_for_start& operator=(const wait_for_start&) = delete;

  bool is_over() const {
    const std::lock_guard held(one->mutex);
    return one->is_over;
  }
  nc::result said() const {
    const std::lock_guard held(one->mutex);
    return one->said;
  }

 private:
  vendor_group& of_;

 public:
  const std::shared_ptr<beginning> one = std::make_shared<beginning>();
  event told;
};

vendor_group::vendor_group(accelerator& device, const nccl& lib, int rank, int size)
    : device_(device), lib_(lib), rank_(rank), size_(size), stream_(device) {}

/// Aborts, because kernels on the stream may wait for a lost rank.
vendor_group::~vendor_group() {
  if (ending_.joinable()) ending_.join();
  if (comm_ == nullptr) return;
  const device_entered on(device_);
  lib_.abort(comm_);
}

/// While they wait for other ranks, the library's kernels poll an abort flag. The abort itself
/// waits for all work of the device, including that of other aborted groups, so each abort needs a
/// thread.
void vendor_group::give_up(const error& why) {
  if (lost_) return;
  lost_ = why;
  if (starting_ != nullptr) starting_->notify_all();
  const nc::comm comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  const auto abort = [this, comm] {
    try {
      const device_entered on(device_);
      lib_.abort(comm);
    } catch (const error&) {  // the device is lost, so nothing runs on it any more
    }
  };
  try {
    ending_ = start_threads("no thread to abort the vendor's communicator with",
                            [&abort] { return std::thread(abort); });
  } catch (const error& lack) {
    log(log_level::error, "islands", lack.what());  // its kernels wait until the process ends
  }
}

void vendor_group::check_alive() const {
  if (lost_) throw error(*lost_);
}

void vendor_group::must(nc::result said, const char* call) const {
  if (said == nc::success || said == nc::in_progress) return;
  const char* const last = lib_.last_error != nullptr ? lib_.last_error(comm_) : nullptr;
  throw error(errc::device_failed,
              fmt::format("{} on {}, rank {} of an island of {}: {}{}{}", call, device_.text(),
                          rank_, size_, lib_.error_string(said),
                          last != nullptr && *last != 0 ? ": " : "", last != nullptr ? last : ""),
              "set NCCL_DEBUG=WARN for the library's diagnostics");
}

asio::awaitable<void> vendor_group::start(communicator& inside) {
  nc::unique_id id{};
  if (rank_ == 0) must(lib_.get_unique_id(&id), "ncclGetUniqueId");
  const mutable_view bytes(id.bytes);
  co_await tandem::broadcast(inside, bytes, 0);
  check_alive();

  const asio::any_io_executor executor = inside.get_executor();
  nc::result said = nc::success;
  {
    wait_for_start waiting(*this, executor);
    begin(waiting.one, device_, lib_, id, rank_, size_, executor, waiting.told);
    while (!waiting.is_over() && !lost_) co_await waiting.told.wait();
    said = waiting.said();
  }
  check_alive();
  must(said, "ncclCommInitRank");
}

}  // namespace tandem::detail
