#pragma once

#include <atomic>
#include <stdexcept>
#include <string>
#include <tandem/detail/cuda.hpp>

namespace tandem::test {

/// Counts the calls of this machine's driver: `find_cuda` returns the counting table from now on.
/// Calls made by a vendor library itself are not counted.
class counted_cuda {
 public:
  /// @pre no accelerator of this process has been used.
  static void begin();

  /// Driver objects that this process holds.
  struct objects {
    long memory = 0, pinned = 0, pages = 0, streams = 0, events = 0, openings = 0, modules = 0;
    bool operator==(const objects&) const = default;
  };
  static objects open() noexcept;
  static std::string text(const objects& of);
  static long kernels() noexcept;  ///< launched
  static long copies() noexcept;   ///< copy calls; a batch counts as one

 private:
  static inline detail::cuda real_{};

  template <auto Member>
  struct function;
  template <class... Arguments, detail::cu::result (*detail::cuda::*Member)(Arguments...)>
  struct function<Member> {
    static inline std::atomic<long> done{0};
    static detail::cu::result call(Arguments... with) {
      const detail::cu::result status = (real_.*Member)(with...);
      if (status == detail::cu::success) ++done;
      return status;
    }
  };
  template <auto Member>
  static long done() noexcept {
    return function<Member>::done.load();
  }
  template <auto... Members>
  static void count(detail::cuda& in) {
    ((in.*Members = in.*Members == nullptr ? nullptr : function<Members>::call), ...);
  }
};

inline void counted_cuda::begin() {
  using detail::cuda;
  static cuda counting{};
  std::string why;
  const cuda* const here = detail::find_cuda(why);
  if (here == nullptr) throw std::runtime_error(why);
  real_ = counting = *here;
  count<&cuda::allocate, &cuda::free, &cuda::allocate_host, &cuda::free_host, &cuda::register_host,
        &cuda::unregister_host, &cuda::create_stream, &cuda::destroy_stream, &cuda::create_event,
        &cuda::destroy_event, &cuda::open_ipc_handle, &cuda::close_ipc_handle, &cuda::load_module,
        &cuda::unload_module, &cuda::launch, &cuda::copy, &cuda::copy_many>(counting);
  detail::replace_cuda(&counting);
}

inline counted_cuda::objects counted_cuda::open() noexcept {
  using detail::cuda;
  return {.memory = done<&cuda::allocate>() - done<&cuda::free>(),
          .pinned = done<&cuda::allocate_host>() - done<&cuda::free_host>(),
          .pages = done<&cuda::register_host>() - done<&cuda::unregister_host>(),
          .streams = done<&cuda::create_stream>() - done<&cuda::destroy_stream>(),
          .events = done<&cuda::create_event>() - done<&cuda::destroy_event>(),
          .openings = done<&cuda::open_ipc_handle>() - done<&cuda::close_ipc_handle>(),
          .modules = done<&cuda::load_module>() - done<&cuda::unload_module>()};
}

inline std::string counted_cuda::text(const objects& of) {
  return std::to_string(of.memory) + " allocations, " + std::to_string(of.pinned) + " pinned, " +
         std::to_string(of.pages) + " registered, " + std::to_string(of.streams) + " streams, " +
         std::to_string(of.events) + " events, " + std::to_string(of.openings) + " openings, " +
         std::to_string(of.modules) + " modules";
}

inline long counted_cuda::kernels() noexcept {
  return done<&detail::cuda::launch>();
}
inline long counted_cuda::copies() noexcept {
  return done<&detail::cuda::copy>() + done<&detail::cuda::copy_many>();
}

}  // namespace tandem::test
