#include "islands/vendor_group.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/collectives/collectives.hpp>
#include <tandem/event.hpp>
#include <thread>
#include <utility>

namespace tandem::detail {
namespace {

/// What a thread of its own has come to.
struct outcome {
  nc::result said = nc::success;
  nc::comm made = nullptr;
  bool is_over = false;
};

}  // namespace

vendor_group::vendor_group(accelerator& device, const nccl& lib, int rank, int size)
    : device_(device), lib_(lib), rank_(rank), size_(size), stream_(device) {}

/// What is on the stream may wait for a rank that is gone: aborting ends it.
vendor_group::~vendor_group() {
  if (ending_.joinable()) ending_.join();
  if (comm_ == nullptr) return;
  const device_entered on(device_);
  lib_.abort(comm_);
}

/// Kernels of the library look whether they shall go on while they wait for others. The abort then
/// waits for all that the device does, for other groups that are given up too: hence the threads.
void vendor_group::give_up(const error& why) {
  if (lost_) return;
  lost_ = why;
  const nc::comm comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  ending_ = std::thread([this, comm] {
    try {
      const device_entered on(device_);
      lib_.abort(comm);
    } catch (const error&) {  // without its device nothing runs any more, either
    }
  });
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
              "NCCL_DEBUG=WARN makes the library say more");
}

asio::awaitable<std::unique_ptr<vendor_group>> vendor_group::make(communicator& inside,
                                                                  accelerator& device,
                                                                  const nccl& lib) {
  std::unique_ptr<vendor_group> made(new vendor_group(device, lib, inside.rank(), inside.size()));
  nc::unique_id id{};
  if (inside.rank() == 0) made->must(lib.get_unique_id(&id), "ncclGetUniqueId");
  const mutable_view bytes(id.bytes);
  co_await tandem::broadcast(inside, bytes, 0);

  const asio::any_io_executor executor = inside.get_executor();
  const auto came = std::make_shared<outcome>();
  const auto told = std::make_shared<event>(executor);
  const int rank = inside.rank(), size = inside.size();
  std::thread starter([&device, &lib, id, rank, size, came, told, executor] {
    outcome own;
    try {
      const device_entered on(device);
      own.said = lib.init_rank(&own.made, size, id, rank);
    } catch (const error&) {
      own.said = nc::system_error;
    }
    asio::post(executor, [came, told, own] {
      *came = own;
      came->is_over = true;
      told->notify_all();
    });
  });
  starter.detach();
  while (!came->is_over) co_await told->wait();
  made->comm_ = came->made;
  made->must(came->said, "ncclCommInitRank");
  co_return made;
}

}  // namespace tandem::detail
