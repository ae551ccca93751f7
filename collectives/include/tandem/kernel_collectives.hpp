/// Collectives among the GPUs of ranks, of kernels on the caller's stream.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tandem/collectives.hpp>
#include <tandem/kernel_messages.hpp>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {
namespace detail {
class peer_watch;
}

/// How kernels of two ranks exchange data: in each other's memory, or relayed
/// (`kernel_messages::make_relayed`); or the first where it is possible, else the second.
enum class kernel_path : std::uint8_t { direct, relayed, either };

/// Collectives whose messages are `kernel_messages`, and whose data the kernels of other reductions
/// combine: a call returns when its kernels are launched.
///
/// All ranks get the same bits: data are combined in the order of the ranks, as `reduce_op` says.
/// Ranks make the same calls in the same order; calls that differ (function, type, operation, root,
/// bytes) are a `kernel_messages::mismatch`.
///
/// @par Cost  A launch for the messages, and one for each other rank to combine their data; of two
///   ranks one launch for both in all_reduce and reduce_scatter. In bytes as `queue_steps`
///   (src/streams/kernel_steps.hpp) says.
/// @par Memory  16 MiB of the device for each other rank, and scratch memory of a multiple of
///   `scratch_bytes`.
/// @par Failure, Threads  As of `kernel_messages`.
class kernel_collectives {
 public:
  static constexpr int max_ranks = 12;  ///< a kernel has two directions for each other rank

  /// What `make` has made.
  struct made {
    std::shared_ptr<kernel_collectives> collectives;  ///< null on all ranks if it is not possible
    std::string why_not;
    bool take_turns = false;  ///< kernels of this rank and another, on one device: why not
  };
  /// A collective call of all ranks. @param scratch_bytes  the same on all: longer calls go on part
  /// by part @param what  `lost`: the job has failed, or a rank has left it @param how  the same on
  /// all
  /// @par Cost  Some short messages, and on first use the compilation of a kernel.
  /// @par Errors  as of collectives.
  static asio::awaitable<made> make(communicator& over, accelerator& of, std::size_t scratch_bytes,
                                    kernel_messages::relay_handlers what,
                                    kernel_path how = kernel_path::direct);
  /// Waits until its kernels are through, for up to a second; memory that they still use then is
  /// never freed. On the communicator's executor.
  ~kernel_collectives();
  kernel_collectives(const kernel_collectives&) = delete;
  kernel_collectives& operator=(const kernel_collectives&) = delete;

  /// A collective. Views are in memory of the device, and as those of the functions of
  /// collectives.hpp; blocks of all ranks have the same length.
  struct call {
    collective what = collective::barrier;
    const_view from = {};    ///< of a broadcast: at the root only
    mutable_view into = {};  ///< of a reduce: at the root only; of a broadcast: elsewhere
    data_type type = data_type::uint8;
    reduction how = reduce_op::sum;
    int root = 0;
  };
  /// Whether it has kernels (broadcast, reduce, all_reduce, all_gather and reduce_scatter do) and
  /// its arguments are as they have to be.
  bool takes(const call& what) const noexcept;
  /// What has been launched.
  struct launched {
    std::vector<kernel_messages::end> ends;  ///< of its last messages
    bool is_complete_then = false;           ///< else what combines them is behind, on the stream
  };
  /// @pre takes(what)
  /// @par Errors thrown: `device_failed`; nothing more can be launched then.
  launched launch(const call& what, accelerator::stream on);

  /// What `kernel_messages::mismatch` says of a call: "all_reduce of float32, sum".
  static std::string describe(std::uint32_t call);
  /// With each other rank.
  const std::vector<std::shared_ptr<kernel_messages>>& messages() const noexcept {
    return messages_;
  }
  /// Whether some of them are.
  bool is_relayed() const noexcept;
  const accelerator& on() const noexcept { return of_; }

 private:
  class memory;
  class steps;
  kernel_collectives(accelerator& of, int rank) noexcept;
  kernel_messages* between(int peer) const noexcept {
    return messages_[static_cast<std::size_t>(peer < rank_ ? peer : peer - 1)].get();
  }

  accelerator& of_;
  const int rank_;
  std::vector<std::shared_ptr<kernel_messages>> messages_;
  std::shared_ptr<memory> memory_;
  std::unique_ptr<detail::peer_watch> watch_;
};

}  // namespace tandem

#pragma GCC visibility pop
