#include "algorithms/algorithms.hpp"

namespace tandem::detail {

asio::awaitable<void> alone(std::shared_ptr<group> in, const_view from, mutable_view into) {
  co_await nothing(std::move(in));
  put_own(from, into);
}

asio::awaitable<void> alone(std::shared_ptr<group> in, const_view from, mutable_view into,
                            reducer by) {
  co_await nothing(std::move(in));
  by.prepare(into.data, from.data, from.bytes);
}

}  // namespace tandem::detail
