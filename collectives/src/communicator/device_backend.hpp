#pragma once

#include <tandem/collectives.hpp>

namespace tandem {

class accelerator;

namespace detail {

class call;
class group;

/// Carries out the collectives of a communicator on device memory in place of the algorithms over
/// its channels. The functions of `tandem/collectives.hpp` check the arguments and open the call,
/// which is not empty; an operation here is the work of an open call, as an algorithm is.
class device_backend {
 public:
  device_backend() = default;
  device_backend(const device_backend&) = delete;
  device_backend& operator=(const device_backend&) = delete;
  virtual ~device_backend() = default;

  /// The device whose memory it works on.
  virtual const accelerator& memory_of() const noexcept = 0;
  /// Whether it has such a reduction; false for undefined values. The same on all ranks.
  virtual bool has(data_type type, reduce_op op) const noexcept = 0;
  /// The group over whose channels this rank sends data of such a call; null: it sends none.
  virtual group* channels_for(collective what) const noexcept = 0;

  virtual asio::awaitable<void> all_reduce(const_view data, mutable_view result, data_type type,
                                           reduction what) = 0;
  virtual asio::awaitable<void> broadcast(mutable_view data, int root) = 0;
  virtual asio::awaitable<void> reduce(const_view data, mutable_view result, data_type type,
                                       reduction what, int root) = 0;
  virtual asio::awaitable<void> all_gather(const_view mine, mutable_view all) = 0;
  virtual asio::awaitable<void> reduce_scatter(const_view all, mutable_view mine, data_type type,
                                               reduction what) = 0;
  /// @param c  the open call, which outlives the work
  virtual asio::awaitable<void> all_to_all(call& c, const_view from, mutable_view into) = 0;
};

}  // namespace detail
}  // namespace tandem
