#include "islands/vendor_group.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <tandem/collectives/collectives.hpp>
#include <tandem/event.hpp>
#include <thread>
#include <utility>

#include "reduce/reducer.hpp"

namespace tandem::detail {
namespace {

/// The device is the calling thread's, as libraries expect it.
class here {
 public:
  explicit here(accelerator& of) : of_(of) { of_.enter(); }
  ~here() { of_.leave(); }
  here(const here&) = delete;
  here& operator=(const here&) = delete;

 private:
  accelerator& of_;
};

/// Starts many calls as one.
class together {
 public:
  explicit together(const nccl& lib) : lib_(lib) { lib_.group_start(); }
  nc::result end() { return std::exchange(ended_, true) ? nc::success : lib_.group_end(); }
  ~together() { end(); }
  together(const together&) = delete;
  together& operator=(const together&) = delete;

 private:
  const nccl& lib_;
  bool ended_ = false;
};

/// The number 1 of a floating-point type.
std::array<std::byte, 8> one_of(data_type type) {
  std::uint64_t bits = 0;
  switch (type) {
    case data_type::float64:
      bits = 0x3ff0'0000'0000'0000;
      break;
    case data_type::float16:
      bits = 0x3c00;
      break;
    case data_type::bfloat16:
      bits = 0x3f80;
      break;
    case data_type::float8_e4m3:
      bits = 0x38;
      break;
    case data_type::float8_e5m2:
      bits = 0x3c;
      break;
    case data_type::float32:
      bits = 0x3f80'0000;
      break;
    default:
      bits = 1;
  }
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), &bits, sizeof bits);  // little endian, as all that is built for
  return bytes;
}

/// What a thread of its own has come to.
struct outcome {
  nc::result said = nc::success;
  nc::comm made = nullptr;
  bool is_over = false;
};

}  // namespace

std::optional<int> vendor_type(data_type type, int version) noexcept {
  constexpr int has_float8 = 22400;
  switch (type) {
    case data_type::float32:
      return nc::float32;
    case data_type::float64:
      return nc::float64;
    case data_type::float16:
      return nc::float16;
    case data_type::bfloat16:
      return nc::bfloat16;
    case data_type::int8:
      return nc::int8;
    case data_type::uint8:
      return nc::uint8;
    case data_type::int32:
      return nc::int32;
    case data_type::uint32:
      return nc::uint32;
    case data_type::int64:
      return nc::int64;
    case data_type::uint64:
      return nc::uint64;
    case data_type::float8_e4m3:
      if (version >= has_float8) return nc::float8_e4m3;
      return std::nullopt;
    case data_type::float8_e5m2:
      if (version >= has_float8) return nc::float8_e5m2;
      return std::nullopt;
    case data_type::int16:
    case data_type::uint16:
      break;
  }
  return std::nullopt;
}

std::optional<int> vendor_op(reduce_op op) noexcept {
  switch (op) {
    case reduce_op::sum:
      return nc::sum;
    case reduce_op::product:
      return nc::product;
    case reduce_op::minimum:
      return nc::minimum;
    case reduce_op::maximum:
      return nc::maximum;
    default:
      return std::nullopt;
  }
}

vendor_group::vendor_group(accelerator& device, const nccl& lib, int rank, int size)
    : device_(device), lib_(lib), rank_(rank), size_(size), stream_(device) {}

/// What is on the stream may wait for a rank that is gone: aborting ends it.
vendor_group::~vendor_group() {
  if (ending_.joinable()) ending_.join();
  if (comm_ == nullptr) return;
  const here on(device_);
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
      const here on(device_);
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
      const here on(device);
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

void vendor_group::reduce_segments(std::byte* data, std::size_t count, std::size_t element_bytes,
                                   int places, int type, int op) {
  check_alive();
  const here on(device_);
  if (places == size_ && count % static_cast<std::size_t>(size_) == 0) {
    const std::size_t each = count / static_cast<std::size_t>(size_);
    std::byte* const mine = data + static_cast<std::size_t>(rank_) * each * element_bytes;
    must(lib_.reduce_scatter(data, mine, each, type, op, comm_, stream()), "ncclReduceScatter");
    return;
  }
  together calls(lib_);
  for (int k = 0; k < places; ++k) {
    const segment s = segment_of(count, places, k);
    std::byte* const at = data + s.first * element_bytes;
    must(lib_.reduce(at, at, s.count, type, op, k, comm_, stream()), "ncclReduce");
  }
  must(calls.end(), "ncclGroupEnd");
}

void vendor_group::spread_segments(std::byte* data, std::size_t count, std::size_t element_bytes,
                                   int places, int type) {
  check_alive();
  const here on(device_);
  if (places == size_ && count % static_cast<std::size_t>(size_) == 0) {
    const std::size_t each = count / static_cast<std::size_t>(size_);
    const std::byte* const mine = data + static_cast<std::size_t>(rank_) * each * element_bytes;
    must(lib_.all_gather(mine, data, each, type, comm_, stream()), "ncclAllGather");
    return;
  }
  together calls(lib_);
  for (int k = 0; k < places; ++k) {
    const segment s = segment_of(count, places, k);
    std::byte* const at = data + s.first * element_bytes;
    must(lib_.broadcast(at, at, s.count, type, k, comm_, stream()), "ncclBroadcast");
  }
  must(calls.end(), "ncclGroupEnd");
}

void vendor_group::deal_segments(std::byte* data, std::size_t count, std::size_t element_bytes,
                                 int places, int type, int root) {
  check_alive();
  const here on(device_);
  together calls(lib_);
  for (int k = 0; k < places; ++k) {
    if (k == root) continue;
    const segment s = segment_of(count, places, k);
    std::byte* const at = data + s.first * element_bytes;
    if (rank_ == root) must(lib_.send(at, s.count, type, k, comm_, stream()), "ncclSend");
    if (rank_ == k) must(lib_.recv(at, s.count, type, root, comm_, stream()), "ncclRecv");
  }
  must(calls.end(), "ncclGroupEnd");
}

int vendor_group::make_factor(double factor, data_type type, int vendor) {
  // Rounded as a processor's reduction would.
  std::array<std::byte, 8> bytes = one_of(type);
  check_alive();
  const reducer by(type, premultiplied_sum(factor), size_);
  by.prepare(mutable_view(bytes.data(), by.element_bytes()));
  int op = 0;
  must(lib_.make_premultiplied_sum(&op, bytes.data(), vendor, nc::scalar_in_host_memory, comm_),
       "ncclRedOpCreatePreMulSum");
  return op;
}

void vendor_group::free_op(int op) noexcept {
  if (comm_ != nullptr) lib_.free_op(op, comm_);
}

}  // namespace tandem::detail
