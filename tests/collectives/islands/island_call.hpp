#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <tandem/accelerator.hpp>
#include <tandem/parallel.hpp>
#include <tandem/plan.hpp>

namespace tandem::test {

/// A call of a communicator with islands or of a parallel group. Every rank derives its data from
/// its number: integers so small that every order of reduction gives the same result.
struct island_call {
  island_call(collective which, std::size_t elements, data_type of = data_type::uint8,
              reduce_op by = reduce_op::sum, int at = 0, bool same = false)
      : what(which), count(elements), type(of), op(by), root(at), in_place(same) {}

  collective what;
  std::size_t count;  ///< elements of a rank's block
  data_type type;
  reduce_op op;
  int root;
  bool in_place;          ///< if the call supports it
  bool has_nans = false;  ///< minimum and maximum: inputs are `nan_cases`
};

/// NaN at every position, and zeros of both signs. @pre floating-point type.
inline island_call with_nans(island_call like) {
  like.has_nans = true;
  return like;
}

std::string text(const island_call& c);

/// Makes the call as this rank on memory of its device. Throws if the result is wrong, if the input
/// was changed, or if bytes around both were.
/// @param device  null for host memory
asio::awaitable<void> check(communicator& in, accelerator* device, island_call c);

}  // namespace tandem::test
