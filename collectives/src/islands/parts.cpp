#include "islands/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <tandem/plan.hpp>
#include <utility>

#include "islands/level_reduction.hpp"

namespace tandem::detail {
namespace {

/// The chunk for copy engines and kernels: each has a fixed cost of some 10 us, in which a link
/// between two devices transfers 4 MB.
constexpr std::size_t device_chunk_bytes = std::size_t{16} << 20;

/// A plan for host memory with chunks that suit devices; the same on every rank.
plan with_long_chunks(const plan& agreed) {
  std::vector<plan_rule> rules(agreed.rules().begin(), agreed.rules().end());
  for (plan_rule& rule : rules) rule.chunk_bytes = std::max(rule.chunk_bytes, device_chunk_bytes);
  return plan(std::move(rules), agreed.known());
}

/// The error that is reported to the other ranks.
error reported_error(std::exception_ptr failure, int rank, const char* call) {
  try {
    std::rethrow_exception(failure);
  } catch (const error& ours) {
    error_context c = ours.context();
    if (c.rank >= 0) return ours;
    c.rank = rank;
    c.phase = fmt::format("{}, inside its island", call);
    return error(ours.code(), c);
  } catch (const boost::system::system_error& e) {
    const bool is_cancelled = e.code() == asio::error::operation_aborted;
    return error(is_cancelled ? errc::message_cancelled : errc::peer_lost,
                 fmt::format("rank {}: {}", rank, describe(e)));
  } catch (const std::exception& e) {
    return error(errc::peer_lost, fmt::format("rank {}: {}", rank, describe(e)));
  }
}

/// Whether it is Tandem's own error: neither a cancellation nor another exception.
bool is_tandem_error(std::exception_ptr failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const error&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

island_parts::island_parts(group& over, accelerator& of, const std::vector<island_fact>& reported)
    : all(over), device(of), ranks(reported), watch(over.executor(), of), own_(of) {}

backend_description island_parts::description() const {
  group_backend how = all.size() == 1 ? group_backend::alone : group_backend::channels;
  if (has_levels()) how = islands() == 1 ? group_backend::library : group_backend::levels;
  return {how, ranks.members, ranks.text};
}

bool island_parts::has(data_type type, reduce_op op) const noexcept {
  return level_reduction::is_possible(*this, type, op);
}

/// Only leaders send between islands, except in an all_to_all.
group* island_parts::channels_for(collective what) const noexcept {
  if (what == collective::all_to_all && islands() > 1) return &all;
  return across ? across->internals().get() : nullptr;
}

asio::awaitable<void> island_parts::connect(communicator& over, const nccl* library) {
  inside = co_await over.split(island());
  if (islands() > 1) {
    const int colour = is_leader() ? local_rank() : -1;
    across = co_await over.split(colour, island());
  }
  if (across && !across->agreed().known().on_devices) {
    across->internals()->adopt(with_long_chunks(across->agreed()));
  }
  if (!has_inside()) co_return;
  const int next = (inside->rank() + 1) % inside->size();
  co_await inside->internals()->connect(next);
  watch_peer();
  down = std::make_unique<vendor_group>(device, *library, inside->rank(), inside->size());
  co_await down->start(*inside);
  if (islands() < 2) co_return;
  up = std::make_unique<vendor_group>(device, *library, inside->rank(), inside->size());
  co_await up->start(*inside);
}

/// A rank that waits inside the library receives no messages, so it needs a watch.
void island_parts::watch_peer() {
  const group& in = *inside->internals();
  const int next = (inside->rank() + 1) % inside->size();
  peer_watch_ =
      std::make_unique<peer_watch>(in, next, [this](const error& why) { abort_group(why); });
}

void island_parts::abort_group(const error& why) {
  if (down) down->abort_group(why);
  if (up) up->abort_group(why);
}

/// Fails the fabric first: when_all cancels the other level, whose cancellation would otherwise be
/// reported as the cause.
asio::awaitable<void> island_parts::level(const char* call, asio::awaitable<void> work) {
  std::exception_ptr failure;
  try {
    co_await std::move(work);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return;
  const error reported = reported_error(failure, all.job_rank(), call);
  all.fail(reported);
  abort_group(reported);
  if (is_tandem_error(failure)) throw reported;
  std::rethrow_exception(failure);
}

asio::awaitable<void> island_parts::run_levels(const char* call, asio::awaitable<void> work) {
  std::exception_ptr failure;
  try {
    co_await level(call, std::move(work));
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return;
  // A cancelled coroutine has to be able to wait.
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  co_await synchronize();
  co_await asio::this_coro::throw_if_cancelled(throws);
  std::rethrow_exception(failure);
}

/// Ignores device errors: a failed device accesses nothing any more.
asio::awaitable<void> island_parts::synchronize() {
  const std::array<accelerator::stream, 3> streams{own_.get(), down ? down->stream() : own_.get(),
                                                   up ? up->stream() : own_.get()};
  for (const accelerator::stream each : streams) {
    try {
      co_await watch.reached(each);
    } catch (const error&) {
    }
  }
}

mutable_view island_parts::scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) {
    scratch_ = {};
    scratch_ = buffer(bytes, device.kind(), device.device());
  }
  return scratch_.view().part(0, bytes);
}

void island_parts::copy(void* to, const void* from, std::size_t bytes) {
  if (to != from && bytes > 0) device.copy(to, from, bytes, down_stream());
}

asio::awaitable<void> island_parts::synchronize_down() {
  co_await watch.reached(down_stream());
  if (down) down->throw_if_failed();
}

asio::awaitable<void> island_parts::synchronize_group(const vendor_group& which) {
  co_await watch.reached(which.stream());
  which.throw_if_failed();
}

bool level_reduction::is_possible(const island_parts& in, data_type type, reduce_op op) noexcept {
  return in.has_levels() && detail::vendor_type(type, in.ranks.min_library_version) &&
         (vendor_op(op, type) || op == reduce_op::premultiplied_sum);
}

level_reduction::level_reduction(island_parts& in, data_type type, reduction what)
    : type_(type), across_(what) {
  if (!in.down) return;
  inside_.emplace(*in.down, in.ranks.min_library_version, type, what);
  if (what.op == reduce_op::premultiplied_sum) across_ = premultiplied_sum(1);
}

}  // namespace tandem::detail
