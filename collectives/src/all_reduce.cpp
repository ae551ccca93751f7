#include <fmt/format.h>

#include <utility>

#include "algorithms.hpp"
#include "arguments.hpp"

namespace tandem {

asio::awaitable<void> all_reduce(communicator& among, mutable_view data, data_type type,
                                 reduce_op op, all_reduce_algorithm how) {
  using detail::carry_out;
  const std::shared_ptr<detail::group>& g = among.internals();
  if (auto wrong = detail::wrong_memory("all_reduce", data)) return detail::refuse(*wrong);
  if (auto wrong = detail::wrong_elements("all_reduce", data, type, op))
    return detail::refuse(*wrong);
  if (how == all_reduce_algorithm::automatic) {
    how = data.bytes >= g->ring_bytes() ? all_reduce_algorithm::ring
                                        : all_reduce_algorithm::recursive_doubling;
  }
  if (data.bytes == 0 || g->size() == 1) return detail::nothing(g);
  if (how == all_reduce_algorithm::ring) {
    const detail::ring_cut cut(data.bytes, bytes_of(type), g->size(), g->chunk_bytes());
    detail::lease place(g, "all_reduce", detail::ring_window * cut.longest_bytes());
    detail::call& c = *place;
    return carry_out(std::move(place), detail::ring(c, data, type, op, cut));
  }
  if (how != all_reduce_algorithm::recursive_doubling) {
    return detail::refuse(
        error(errc::bad_input, fmt::format("all_reduce: algorithm {}", static_cast<int>(how))));
  }
  detail::lease place(g, "all_reduce", data.bytes);
  detail::call& c = *place;
  return carry_out(std::move(place), detail::recursive_doubling(c, data, type, op));
}

}  // namespace tandem
