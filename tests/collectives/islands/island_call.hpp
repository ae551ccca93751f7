#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <tandem/accelerator.hpp>
#include <tandem/parallel.hpp>
#include <tandem/plan.hpp>

namespace tandem::test {

/// A call of a communicator with islands, or of a parallel group, with data that every rank makes
/// of its number alone: whole numbers so small that any order of combination gives the same.
struct island_call {
  island_call(collective which, std::size_t elements, data_type of = data_type::uint8,
              reduce_op by = reduce_op::sum, int at = 0, bool same = false)
      : what(which), count(elements), type(of), op(by), root(at), in_place(same) {}

  collective what;
  std::size_t count;  ///< of a rank's block
  data_type type;
  reduce_op op;
  int root;
  bool in_place;          ///< where the call may be
  bool has_nans = false;  ///< of minimum and maximum: ranks bring `nan_cases`, each in turn
};

/// Every place of a NaN, and zeros of both signs. @pre the type is of floating point.
inline island_call with_nans(island_call like) {
  like.has_nans = true;
  return like;
}

std::string text(const island_call& c);

/// Makes the call as this rank, on memory of its device, and throws what is wrong with what comes:
/// the result, what was only to be read, and the bytes around both.
/// @param device  null: on memory of the host
asio::awaitable<void> check(communicator& in, accelerator* device, island_call c);

}  // namespace tandem::test
