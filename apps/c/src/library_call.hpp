#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <tandem/accelerator.hpp>
#include <tandem/collectives.hpp>
#include <tandem/kernel_collectives.hpp>
#include <tandem/library_queue.hpp>
#include <utility>

#include "operation.hpp"

namespace tandem::c {

/// What an operation does with its data, wherever those are: on a device, or in the host's memory.
struct data_call {
  using function =
      std::function<asio::awaitable<void>(operation_state&, mutable_view from, mutable_view into)>;

  mutable_view from = {};  ///< only read
  mutable_view into = {};
  /// `into` is `from`: what the operation does not write keeps its contents.
  bool is_in_place = false;
  /// Of the longest view that any rank has. 0: ranks cannot tell.
  std::size_t bytes = 0;
  function carry_out = {};
};
/// The same for the loop.
inline operation_body body_of(data_call what) {
  return [what = std::move(what)](operation_state& self) {
    return what.carry_out(self, what.from, what.into);
  };
}

/// A call of a vendor's library that an operation makes.
struct library_call {
  static constexpr int all_ranks = -1;

  const char* name = "";
  collective what = collective::barrier;
  int peer = all_ranks;                         ///< of a message
  bool is_send = false;                         ///< of a message
  mutable_view message = {};                    ///< of a message; a send only reads it
  std::shared_ptr<device_side> side = nullptr;  ///< of its buffers
  /// The same on all ranks. Empty: always.
  std::function<bool(const library_queue&)> is_possible = {};
  std::function<void(library_queue&)> make = {};
  data_call data = {};
  kernel_collectives::call by_kernels = {};  ///< of a collective; a barrier: not by kernels
  bool may_be_by_kernels = false;
  /// The caller's own stream, if that may carry it out.
  bool may_be_in_stream = false;
  bool may_be_by_library_in_stream = false;  ///< only the vendor's library
  accelerator::stream stream = nullptr;
  /// That will carry it out: the operation has no beginning.
  bool is_in_stream = false;
};

}  // namespace tandem::c
