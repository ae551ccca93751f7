#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "doubles/cuda/double.hpp"

// The objects behind the handles, with what the double knows of each.
namespace tandem::test::cuda {

using clock = std::chrono::steady_clock;

// Results that only the double and its tests use.
inline constexpr cu::result invalid_device = 101, invalid_image = 200, map_failed = 205,
                            already_mapped = 208, peer_access_unsupported = 217,
                            invalid_handle = 400, not_found = 500, illegal_address = 700,
                            host_memory_not_registered = 713, launch_failed = 719,
                            capture_unsupported = 900;

/// CU_STREAM_LEGACY, another handle of the default stream.
inline const cu::stream legacy_stream = reinterpret_cast<cu::stream>(std::uintptr_t{1});

/// Memory with a descriptor, mapped once.
class backing {
 public:
  /// New memory. Null: out of memory.
  static std::shared_ptr<backing> make(std::size_t bytes);
  /// Memory that another process has made.
  static std::shared_ptr<backing> of_process(int process, int descriptor, std::size_t bytes);
  ~backing();
  backing(const backing&) = delete;
  backing& operator=(const backing&) = delete;

  std::byte* data() const noexcept { return data_; }
  int descriptor() const noexcept { return descriptor_; }
  /// A new descriptor for the bytes from `offset` on, both whole pages. The first export from the
  /// middle moves the bytes to a descriptor of their own. -1: a part of them has been moved
  /// already.
  int export_part(std::size_t offset, std::size_t bytes);

 private:
  backing(int descriptor, std::byte* data, std::size_t bytes)
      : descriptor_(descriptor), data_(data), bytes_(bytes) {}
  static std::shared_ptr<backing> map(int descriptor, std::size_t bytes);
  int descriptor_;
  std::byte* data_;
  std::size_t bytes_;
  struct part {
    std::size_t offset, bytes;
    int descriptor;
  };
  std::vector<part> parts_;
};

enum class region_kind { allocation, opening, pages, pinned, registered };

/// Memory of pages, which is mapped at addresses apart from it.
struct page_memory {
  page_memory(int of, std::size_t all, int on) : descriptor(of), bytes(all), device(on) {}
  ~page_memory();
  page_memory(const page_memory&) = delete;
  page_memory& operator=(const page_memory&) = delete;

  const int descriptor;
  const std::size_t bytes;
  const int device;
};

struct region {
  region_kind kind = region_kind::allocation;
  cu::address base = 0;
  std::size_t bytes = 0;
  int device = 0;  ///< that owns the memory
  std::byte* data = nullptr;
  std::shared_ptr<backing> owned;  ///< null: not the double's memory
  std::uint64_t id = 0;            ///< of the allocation, also of a mapping of it
  int opened_by = -1;              ///< device, for a mapping
  bool exported_here = false;      ///< a mapping of an allocation of this process
  /// Of pages, one after the other.
  struct part {
    std::size_t offset;
    std::uint64_t id;
    std::shared_ptr<page_memory> memory;
    std::size_t end() const noexcept { return offset + memory->bytes; }
  };
  std::vector<part> parts = {};
  std::set<int> accessible = {};  ///< devices, of pages
  std::shared_ptr<std::byte> host_addresses = nullptr;
  bool is_of_test = false;  ///< not made by calls

  const part* part_at(cu::address at) const;

  bool is_host() const noexcept {
    return kind == region_kind::pinned || kind == region_kind::registered;
  }
};

/// The position of a stream.
struct record {
  bool done = false;
  clock::time_point at{};
};

struct event {
  cu::event handle = nullptr;
  int device = 0;
  bool timed = true;
  std::shared_ptr<record> last;  ///< null: never recorded
};

struct work {
  const char* what = "";
  std::function<bool()> is_ready = {};  ///< null: always
  std::function<void()> run = {};
  bool without_lock = false;             ///< it calls functions outside the double
  std::shared_ptr<record> signals = {};  ///< also set when the work of a broken device is dropped
  bool polls = false;                    ///< becomes ready without a signal
  bool is_kernel = false;                ///< has begun when it is asked whether it is ready
  bool has_begun = false;
  cu::module module = {};  ///< of a kernel that waits
  int source_device = -1;  ///< the source device of a copy to another device
  std::uint64_t ticket = 0;
  std::optional<clock::time_point> not_before = {};
};

struct stream {
  cu::stream handle = nullptr;  ///< null: a device's default stream
  int device = 0;
  bool blocking = true;  ///< synchronizes with the default stream
  bool destroyed = false;
  bool capturing = false;
  bool running = false;                           ///< the first of `waiting` is being executed
  std::optional<std::pair<int, int>> queue = {};  ///< of the hardware: of a priority; none: its own
  std::deque<work> waiting;
};

struct kernel {
  std::string name;
  std::vector<std::size_t> argument_bytes;
  cuda_double::kernel what = {};
  cuda_double::waiting_kernel start = {};  ///< instead of `what`
};

struct function {
  cu::function handle = nullptr;
  const kernel* what = nullptr;
};

struct module {
  cu::module handle = nullptr;
  int device = 0;
  std::vector<function> functions;
};

struct device {
  int ordinal = 0;
  std::weak_ptr<stream> served;  ///< by the engine that copies to other devices
  int retained = 0;
  cu::result broken = cu::success;  ///< sticky
  std::optional<int> breaks_after;
  cu::result breaks_with = cu::success;
  std::set<int> reached;  ///< by enable_peer_access
  std::size_t used_bytes = 0;
  std::shared_ptr<stream> default_stream;
};

}  // namespace tandem::test::cuda
