#include <tandem/parallel.hpp>
#include <utility>

#include "islands/weighted_share.hpp"

namespace tandem {
namespace {

asio::awaitable<void> weighted_mean_by_channels(communicator& among, mutable_view data,
                                                data_type type, double weight) {
  const double factor = co_await detail::weighted_share(among, type, weight);
  const reduction share = premultiplied_sum(factor);
  co_await tandem::all_reduce(among, data, type, share);
}

}  // namespace

parallel_group::parallel_group(std::unique_ptr<communicator> ranks, std::unique_ptr<islands> by,
                               group_choice choice) noexcept
    : ranks_(std::move(ranks)), by_(std::move(by)), choice_(std::move(choice)) {}
parallel_group::~parallel_group() = default;

asio::awaitable<void> parallel_group::all_reduce(mutable_view data, data_type type,
                                                 reduction what) {
  if (by_) return by_->all_reduce(data, type, what);
  return tandem::all_reduce(*ranks_, data, type, what);
}

asio::awaitable<void> parallel_group::broadcast(mutable_view data, int root) {
  if (by_) return by_->broadcast(data, root);
  return tandem::broadcast(*ranks_, data, root);
}

asio::awaitable<void> parallel_group::reduce(const_view data, mutable_view result, data_type type,
                                             reduction what, int root) {
  if (by_) return by_->reduce(data, result, type, what, root);
  return tandem::reduce(*ranks_, data, result, type, what, root);
}

asio::awaitable<void> parallel_group::all_gather(const_view mine, mutable_view all) {
  if (by_) return by_->all_gather(mine, all);
  return tandem::all_gather(*ranks_, mine, all);
}

asio::awaitable<void> parallel_group::reduce_scatter(const_view all, mutable_view mine,
                                                     data_type type, reduction what) {
  if (by_) return by_->reduce_scatter(all, mine, type, what);
  return tandem::reduce_scatter(*ranks_, all, mine, type, what);
}

asio::awaitable<void> parallel_group::all_to_all(const_view from, mutable_view into) {
  if (by_) return by_->all_to_all(from, into);
  return tandem::all_to_all(*ranks_, from, into);
}

asio::awaitable<void> parallel_group::weighted_mean(mutable_view data, data_type type,
                                                    double weight) {
  if (by_) return by_->weighted_mean(data, type, weight);
  return weighted_mean_by_channels(*ranks_, data, type, weight);
}

}  // namespace tandem
