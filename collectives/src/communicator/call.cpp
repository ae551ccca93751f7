#include "call.hpp"

#include <fmt/format.h>

#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <utility>

namespace tandem::detail {

std::size_t call::scratch_bytes(const device_queue* on) const noexcept {
  const mutable_view all = scratch_.view();
  const bool is_there = on == nullptr
                            ? all.kind == memory_kind::host
                            : all.kind == on->on().kind() && all.device == on->on().device();
  return is_there ? all.bytes : 0;
}

void call::reserve(std::size_t bytes, device_queue* on) {
  queue_ = on;
  if (scratch_bytes(on) >= bytes) return;
  scratch_ = {};
  scratch_ = on == nullptr ? buffer(bytes) : buffer(bytes, on->on().kind(), on->on().device());
}

std::span<transfer> call::reserve_transfers(std::size_t count) {
  if (count <= transfers.size()) {
    io.use(transfers);
    return transfers;
  }
  if (more_transfers_.size() < count) more_transfers_ = std::vector<transfer>(count);
  io.use(more_transfers_);
  return more_transfers_;
}

void call::at(const char* part, int step, int steps) noexcept {
  part_ = part;
  step_ = step;
  steps_ = steps;
}

void call::open_board() noexcept {
  board_io.open(*in->shared_board(), in->calls().count() - 1, signature());
}

void call::make_level_of(const call& parent, unsigned level) noexcept {
  parent_ = &parent;
  rewrites = parent.rewrites;
  flow = parent.flow + level * group::calls_at_once;
}

void call::open(group& with, kind which) {
  kind_ = which;
  io.rewrites(rewrites);
  io.set_deadline(which == kind::level ? parent_->io.deadline() : with.deadline());
  board_io.set_deadline(io.deadline());
  if (which == kind::level) {
    with.throw_if_failed();
    io.set_signature(parent_->in->signature_of(parent_->number_));
  } else if (which == kind::pipeline) {
    with.open_pipeline();
    io.set_signature({});
  } else {
    number_ = with.open_number(what);
    if (with.metrics().is_on()) began_ = std::chrono::steady_clock::now();
    flow = with.flow(group::flow_class::collective, number_);
    io.set_signature(with.signature_of(number_));
  }
  open_ = true;
  at("", 0);
}

void call::close() noexcept {
  io.reset();
  board_io.close();
  if (!std::exchange(open_, false)) return;
  if (kind_ == kind::pipeline) {
    in->close_pipeline();
  } else if (kind_ == kind::collective) {
    in->close_number(number_);
    if (in->metrics().is_on() && !in->failed()) {
      in->metrics().ended(what.name(), in->job_rank(), in->id(),
                          std::chrono::steady_clock::now() - began_, what.bytes());
    }
  }
  parent_ = nullptr;
}

std::string call::phase(const std::string& inner) const {
  std::string text = name;
  if (*part_ != '\0') {
    text += steps_ > 0 ? fmt::format(", {} step {} of {}", part_, step_ + 1, steps_)
                       : fmt::format(", {} {}", part_, step_);
  }
  if (!inner.empty()) text += ", " + inner;
  return text;
}

call::failure_report call::classify_failure(std::exception_ptr failure) const {
  const int mine = in->job_rank();
  error_context c{.rank = mine, .rail = {}, .phase = phase({}), .detail = {}, .advice = {}};
  const auto local_failure = [&c, mine](errc code, std::string detail) {
    c.peer = mine;
    c.detail = std::move(detail);
    return error(code, c);
  };
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& e) {
    if (e.code() == asio::error::operation_aborted) {
      c.detail = fmt::format("{} was cancelled on this rank", name);
      const error thrown(e.code(), c);
      return {std::make_exception_ptr(thrown),
              local_failure(errc::message_cancelled,
                            fmt::format("rank {} cancelled its {}", mine, name))};
    }
    const auto* ours = dynamic_cast<const error*>(&e);
    if (ours == nullptr)
      return {failure,
              local_failure(errc::peer_lost, fmt::format("rank {}: {}", mine, describe(e)))};
    // Another call failed first, and its failure ended this one.
    if (in->failed() && in->failed()->code() == e.code()) {
      return {std::make_exception_ptr(*in->failed()), *in->failed()};
    }
    // A failure that another rank has reported to all ranks already has its context.
    c = ours->context();
    if (c.rank >= 0 && c.rank != mine) return {failure, *ours};
    error_code code = ours->code();
    const transfer* const met = io.failed();
    if (code == errc::call_mismatch && met != nullptr && met->result == errc::call_mismatch) {
      const call& called = parent_ != nullptr ? *parent_ : *this;
      c.detail = kind_ == kind::pipeline
                     ? fmt::format("ranks {} and {} have different pipeline schedules", mine,
                                   met->path.peer)
                     : called.in->difference(called.number_, met->peer_signature, met->path.peer);
    }
    if (code == errc::timed_out && kind_ != kind::pipeline) {
      const call& called = parent_ != nullptr ? *parent_ : *this;
      const std::string missing = called.in->missing_call();
      if (!missing.empty()) {
        c.detail = c.detail.empty() ? missing : missing + "; " + c.detail;
        c.advice = "look where that rank is: it may have ended early, or wait for something else";
      }
    }
    if (code == errc::message_truncated) {
      code = errc::call_mismatch;
      c.advice = same_call_advice;
    }
    c.rank = mine;
    c.phase = phase(c.phase);
    const error explained(code, c);
    return {std::make_exception_ptr(explained), explained};
  } catch (const std::exception& e) {
    return {failure, local_failure(errc::peer_lost, fmt::format("rank {}: {}", mine, describe(e)))};
  } catch (...) {
    return {failure,
            local_failure(errc::peer_lost, fmt::format("rank {}: unknown exception", mine))};
  }
}

lease::lease(std::shared_ptr<group> in, const char* name, std::size_t scratch_bytes,
             device_queue* queue)
    : in_(std::move(in)), call_(in_->acquire(scratch_bytes, queue)) {
  call_->in = in_.get();
  call_->name = name;
  call_->rewrites = false;
  call_->reserve_transfers(0);
}

lease::lease(std::shared_ptr<group> in, const call_record& what, std::size_t scratch_bytes,
             device_queue* queue)
    : lease(std::move(in), what.name(), scratch_bytes, queue) {
  call_->what = what;
}

lease::~lease() {
  if (!call_) return;
  // Only if the coroutine was destroyed: its views must not be accessed any more.
  if (call_->outstanding()) call_->queue()->finish();
  call_->close();
  if (call_->io.idle()) {
    in_->release(std::move(call_));
  } else {
    // The coroutine was destroyed with transfers in progress: they keep this call's memory alive.
    call_->io.keep_alive(call_);
  }
}

namespace {

/// Ignores a device error: a failed device no longer accesses memory, and the call reports the
/// failure that it had before.
asio::awaitable<void> synchronized_or_failed(call& c) {
  try {
    co_await c.synchronize();
  } catch (const error&) {
  }
}

}  // namespace

asio::awaitable<void> run_call(lease slot, asio::awaitable<void> algorithm, call::kind what) {
  call& c = *slot;
  if (what == call::kind::collective && c.in->must_queue()) co_await queue_call(c);
  c.open(*c.in, what);
  std::exception_ptr failure;
  try {
    co_await std::move(algorithm);
    if (c.outstanding()) co_await c.synchronize();
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return;
  failure = fail_call(c, failure);
  if (!c.io.idle() || c.outstanding()) {
    // The channels have failed, so all transfers end soon. Waiting for them must also work in a
    // cancelled coroutine.
    const bool throws = co_await asio::this_coro::throw_if_cancelled();
    co_await asio::this_coro::throw_if_cancelled(false);
    while (!c.io.idle()) co_await c.io.until_idle();
    if (c.outstanding()) co_await synchronized_or_failed(c);
    co_await asio::this_coro::throw_if_cancelled(throws);
  }
  std::rethrow_exception(failure);
}

asio::awaitable<void> queue_call(call& c) {
  std::exception_ptr failure;
  try {
    co_await c.in->queue();
  } catch (...) {
    failure = std::current_exception();
  }
  // As of a call in progress: the other ranks wait for it.
  if (failure) std::rethrow_exception(fail_call(c, failure));
}

std::exception_ptr fail_call(call& c, std::exception_ptr failure) {
  const call::failure_report end = c.classify_failure(failure);
  c.in->fail(end.reported);
  return end.thrown;
}

asio::awaitable<void> refuse(error reason) {
  throw reason;
  co_return;
}

asio::awaitable<void> empty_call(std::shared_ptr<group> in) {
  in->throw_if_failed();
  co_return;
}

asio::awaitable<void> send_to(call& c, int peer, const_view message) {
  if (!c.in->connected(peer)) co_await c.in->connect(peer);
  if (c.outstanding()) co_await c.synchronize();
  transfer& out = c.transfers[0];
  c.io.send(out, c.in->to(peer), c.flow, message);
  while (!c.io.over(out)) co_await c.io.until(out);
}

bool received(call& c, int peer, mutable_view into) {
  const peer_channel source = c.in->to(peer);
  if (source.on == nullptr || c.outstanding()) return false;
  c.io.recv(c.transfers[0], source, c.flow, into);
  return c.io.over(c.transfers[0]);
}

asio::awaitable<void> recv_from(call& c, int peer, mutable_view into) {
  transfer& in = c.transfers[0];
  if (c.io.idle()) {
    if (!c.in->connected(peer)) co_await c.in->connect(peer);
    if (c.outstanding()) co_await c.synchronize();
    c.io.recv(in, c.in->to(peer), c.flow, into);
  }
  while (!c.io.over(in)) co_await c.io.until(in);
}

namespace {

void start_exchange(call& c, const peer_channel& to, const_view message, const peer_channel& from,
                    mutable_view into) {
  // The receive first, so that a message that arrives meanwhile is written directly to `into`.
  c.io.recv(c.transfers[1], from, c.flow, into);
  c.io.send(c.transfers[0], to, c.flow, message);
}

}  // namespace

bool exchanged(call& c, int peer, const_view message, mutable_view into) {
  const peer_channel both_ways = c.in->to(peer);
  if (both_ways.on == nullptr || c.outstanding()) return false;
  start_exchange(c, both_ways, message, both_ways, into);
  return c.io.over(c.transfers[1]) && c.io.over(c.transfers[0]);
}

asio::awaitable<void> exchange(call& c, int to, const_view message, int from, mutable_view into) {
  if (c.io.idle()) {
    if (!c.in->connected(to)) co_await c.in->connect(to);
    if (!c.in->connected(from)) co_await c.in->connect(from);
    if (c.outstanding()) co_await c.synchronize();
    start_exchange(c, c.in->to(to), message, c.in->to(from), into);
  }
  transfer& out = c.transfers[0];
  transfer& in = c.transfers[1];
  while (!c.io.over(in)) co_await c.io.until(in);
  while (!c.io.over(out)) co_await c.io.until(out);
}

}  // namespace tandem::detail
