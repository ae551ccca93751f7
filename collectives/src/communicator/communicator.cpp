#include <fmt/format.h>

#include <array>
#include <boost/asio/this_coro.hpp>
#include <numeric>
#include <tandem/communicator.hpp>
#include <utility>

#include "group.hpp"

namespace tandem {
namespace {

std::vector<int> all_of(const fabric& over) {
  std::vector<int> ranks(static_cast<std::size_t>(over.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::uint16_t checked(std::uint16_t group_id) {
  if (group_id != 0) return group_id;
  throw error(errc::bad_input, "group id 0 is reserved for the whole job", "use 1 to 4095");
}

void check_peer(const detail::group& g, int peer, const char* what) {
  if (peer >= 0 && peer < g.size() && peer != g.rank()) return;
  throw error(errc::bad_input,
              peer == g.rank()
                  ? fmt::format("{}: rank {} is this rank", what, peer)
                  : fmt::format("{}: no rank {} in a group of {}", what, peer, g.size()));
}

}  // namespace

communicator::communicator(fabric& over, const settings& options)
    : group_(std::make_shared<detail::group>(over, options, all_of(over), 0)) {}

communicator::communicator(fabric& over, const settings& options, std::vector<int> members,
                           std::uint16_t group_id)
    : group_(
          std::make_shared<detail::group>(over, options, std::move(members), checked(group_id))) {}

communicator::communicator(communicator&&) noexcept = default;
communicator& communicator::operator=(communicator&&) noexcept = default;
communicator::~communicator() = default;

int communicator::rank() const noexcept {
  return group_->rank();
}
int communicator::size() const noexcept {
  return group_->size();
}
int communicator::job_rank(int rank) const noexcept {
  return group_->member(rank);
}
asio::any_io_executor communicator::get_executor() const noexcept {
  return group_->executor();
}
const plan& communicator::agreed() const noexcept {
  return group_->agreed();
}
const backend_description& communicator::backend() const noexcept {
  return group_->backend();
}

void communicator::set_timeout(std::optional<std::chrono::milliseconds> limit) noexcept {
  group_->set_timeout(limit);
}

asio::awaitable<void> communicator::send(int to, const_view message, std::uint16_t tag) {
  const std::shared_ptr<detail::group> g = group_;
  const operation::time_point due = g->deadline();
  check_peer(*g, to, "send");
  if (!g->connected(to)) co_await g->connect(to);
  detail::transfer out;
  detail::flight io({&out, 1}, g->executor());
  io.set_deadline(due);
  io.send(out, g->to(to), g->flow(detail::group::flow_class::point_to_point, tag), message);
  while (!io.over(out)) co_await io.until(out);
}

asio::awaitable<std::size_t> communicator::recv(int from, mutable_view into, std::uint16_t tag) {
  const std::shared_ptr<detail::group> g = group_;
  const operation::time_point due = g->deadline();
  check_peer(*g, from, "recv");
  if (!g->connected(from)) co_await g->connect(from);
  detail::transfer in;
  detail::flight io({&in, 1}, g->executor());
  io.set_deadline(due);
  io.recv_some(in, g->to(from), g->flow(detail::group::flow_class::point_to_point, tag), into);
  while (!io.over(in)) co_await io.until(in);
  co_return in.bytes;
}

asio::awaitable<std::size_t> communicator::sendrecv(int to, const_view message, int from,
                                                    mutable_view into, std::uint16_t tag) {
  const std::shared_ptr<detail::group> g = group_;
  const operation::time_point due = g->deadline();
  check_peer(*g, to, "sendrecv");
  check_peer(*g, from, "sendrecv");
  if (!g->connected(to)) co_await g->connect(to);
  if (!g->connected(from)) co_await g->connect(from);
  const flow_id flow = g->flow(detail::group::flow_class::point_to_point, tag);
  std::array<detail::transfer, 2> both;
  detail::flight io(both, g->executor());
  io.set_deadline(due);
  io.recv_some(both[0], g->to(from), flow, into);
  io.send(both[1], g->to(to), flow, message);
  std::exception_ptr failure;
  try {
    while (!io.over(both[0])) co_await io.until(both[0]);
    while (!io.over(both[1])) co_await io.until(both[1]);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return both[0].bytes;
  // The views are returned to the caller only when nothing accesses them any more.
  io.cancel();
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!io.idle()) co_await io.until_idle();
  co_await asio::this_coro::throw_if_cancelled(throws);
  std::rethrow_exception(failure);
}

}  // namespace tandem
