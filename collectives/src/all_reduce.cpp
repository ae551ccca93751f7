#include <fmt/format.h>

#include <utility>

#include "algorithms.hpp"
#include "arguments.hpp"

namespace tandem {
namespace {

asio::awaitable<void> alone(std::shared_ptr<detail::group> in, mutable_view data,
                            detail::reducer by) {
  co_await detail::nothing(std::move(in));
  by.prepare(data);
}

}  // namespace

asio::awaitable<void> all_reduce(communicator& among, mutable_view data, data_type type,
                                 reduction what, all_reduce_algorithm how) {
  using detail::carry_out;
  const std::shared_ptr<detail::group>& g = among.internals();
  if (auto wrong = detail::wrong_memory("all_reduce", data)) return detail::refuse(*wrong);
  if (auto wrong = detail::wrong_elements("all_reduce", data, type, what))
    return detail::refuse(*wrong);
  if (how == all_reduce_algorithm::automatic) {
    how = data.bytes >= g->ring_bytes() ? all_reduce_algorithm::ring
                                        : all_reduce_algorithm::recursive_doubling;
  }
  const detail::reducer by(type, what, g->size());
  if (data.bytes == 0) return detail::nothing(g);
  if (g->size() == 1) return alone(g, data, by);
  if (how == all_reduce_algorithm::ring) {
    const detail::ring_cut cut(data.bytes, by.element_bytes(), g->size(), g->chunk_bytes());
    detail::lease place(g, "all_reduce", detail::ring_window * cut.longest_bytes());
    detail::call& c = *place;
    return carry_out(std::move(place), detail::ring(c, data, by, cut));
  }
  if (how != all_reduce_algorithm::recursive_doubling) {
    return detail::refuse(
        error(errc::bad_input, fmt::format("all_reduce: algorithm {}", static_cast<int>(how))));
  }
  detail::lease place(g, "all_reduce", data.bytes);
  detail::call& c = *place;
  return carry_out(std::move(place), detail::recursive_doubling(c, data, by));
}

}  // namespace tandem
