#include "protocol/session.hpp"

#include <fmt/format.h>
#include <time.h>

#include <boost/asio/error.hpp>

namespace tandem::protocol {
namespace {

std::chrono::nanoseconds read(int (*clock_call)(clockid_t, timespec*)) noexcept {
  timespec value{};
  clock_call(CLOCK_MONOTONIC_COARSE, &value);
  return std::chrono::seconds(value.tv_sec) + std::chrono::nanoseconds(value.tv_nsec);
}

/// Now, or up to a tick of the kernel's clock later. Every operation that has to wait reads it, and
/// the exact clock costs a tenth of a message through shared memory.
operation::time_point coarse_now() noexcept {
  static const std::chrono::nanoseconds tick = read(clock_getres);
  return operation::time_point(read(clock_gettime) + tick);
}

std::string phase_of(const operation& op) {
  if (op.what == operation::kind::probe) return "probe: waiting for a message";
  if (op.what == operation::kind::recv) {
    return op.at == operation::phase::moving || op.at == operation::phase::done
               ? "recv: message arriving"
               : "recv: waiting for a message";
  }
  switch (op.at) {
    case operation::phase::announced:
      return "send: waiting for the receiver";
    case operation::phase::moving:
      return "send: message leaving";
    default:
      return "send";
  }
}

std::string_view advice_for(const error_code& code) {
  if (code == errc::message_truncated)
    return "give the receive a view at least as long as the message";
  if (code == errc::timed_out)
    return "is the peer still working? raise --operation-timeout-s if it is";
  if (code == errc::call_mismatch) return "make the same calls in the same order on every rank";
  if (code == errc::device_failed)
    return "see the driver's log; other messages of this channel are not affected";
  if (code == errc::limit_exceeded) return "use fewer flows (--max-flows) and shorter messages";
  return {};
}

}  // namespace

session::session(const limits& agreed, identity who,
                 std::chrono::steady_clock::duration operation_timeout, chunk_order chunks)
    : limits_(agreed),
      who_(std::move(who)),
      timeout_(operation_timeout),
      chunks_(chunks),
      outbox_(limits_, *this),
      inbox_(limits_, *this, chunks) {}

void session::set_limits(const limits& on) noexcept {
  limits_ = on;
  outbox_.set_limits(on);
  inbox_.set_limits(on);
}

void session::reset_operation(operation& op) noexcept {
  op.result = {};
  op.failure.reset();
  op.bytes = op.total_bytes = 0;
  op.move_to(operation::phase::idle);
  op.due = operation::time_point::max();
  op.pins = 0;
  op.registered = false;
}

void session::refuse(operation& op, const error& why) {
  reset_operation(op);
  finish(op, why.code(), {});
  op.failure = std::make_shared<const error>(with_context(why, op.failure->context()));
}

void session::start(operation& op) {
  reset_operation(op);
  if (op.view.kind != memory_kind::host && view_writer_ == nullptr) {
    finish(op, errc::unsupported_memory,
           fmt::format("this channel supports host memory only, not {}", name(op.view.kind)));
    return;
  }
  if (failed_) {
    finish(op, failed_->code(), {});
    return;
  }
  if (op.what == operation::kind::probe) {
    inbox_.probe(op);
  } else if (op.what == operation::kind::recv) {
    inbox_.post(op);
  } else if (peer_closed_) {
    finish(op, errc::peer_closed, {});
  } else {
    outbox_.post(op);
  }
}

bool session::try_send_eager(operation& op, frame& header) {
  if (failed_ || peer_closed_ || inbox_.may_have_next() || op.view.kind != memory_kind::host ||
      !outbox_.try_send_eager(op, header)) {
    return false;
  }
  header.credit = inbox_.credit(op.flow);
  reset_operation(op);
  op.bytes = op.total_bytes = op.view.bytes;
  ++stats_.messages_sent;
  stats_.bytes_sent += op.bytes;
  meter_.sent(op.bytes);
  op.move_to(operation::phase::done);
  return true;
}

void session::cancel(operation& op) {
  if (op.at == operation::phase::done || op.at == operation::phase::idle) return;
  const error_code aborted = asio::error::operation_aborted;
  if (op.what != operation::kind::send) {
    inbox_.cancel(op, aborted);
  } else {
    outbox_.cancel(op, aborted);
  }
}

void session::fail_payload(const outgoing_frame& out, const error& why) {
  outbox_.payload_failed(out, why.code(), why.context().detail);
}

void session::fail_payload(operation& op, const error& why) {
  if (op.at != operation::phase::done) {
    inbox_.cancel(op, why.code(), why.context().detail);
  } else if (!op.result) {
    set_failure(op, why.code(), why.context().detail);
  }
}

bool session::take_if_done(operation& op) noexcept {
  if (op.at != operation::phase::done || op.pins > 0) {
    // It has to wait, so it needs a deadline; the clock is read only in this case.
    op.due = op.deadline != operation::time_point::max() ? op.deadline : coarse_now() + timeout_;
    return false;
  }
  operation_list::unlink(op);
  return true;
}

bool session::next(outgoing_frame& out) {
  if (failed_ || peer_closed_) return false;
  if (inbox_.next(out.header)) {
    out.payload = {};
    out.op = nullptr;
  } else if (!outbox_.next(out)) {
    return false;
  }
  if (carries_credit(out.header.type)) out.header.credit = inbox_.credit(out.header.flow);
  return true;
}

/// A chunk that overtook another frame would carry an outdated credit.
bool session::carries_credit(frame_type type) const noexcept {
  return chunks_ == chunk_order::ascending || type != frame_type::data;
}

bool session::handle(const frame& f) {
  // A close frame is not made by the session, so it names no flow and carries no credit.
  if (f.type != frame_type::close && !outbox_.on_credit(f.flow, f.credit)) {
    return violated(fmt::format("an invalid credit of {} on flow {}", f.credit, f.flow));
  }
  std::string why;
  switch (f.type) {
    case frame_type::announce:
      return inbox_.on_announce(f, why) || violated(why);
    case frame_type::withdraw:
      return inbox_.on_withdraw(f, why) || violated(why);
    case frame_type::accept:
      return outbox_.on_accept(f) || violated("an accept for a message that was not announced");
    case frame_type::refuse:
      return outbox_.on_refuse(f) || violated("a refusal of a message that was not announced");
    case frame_type::credit:
      return true;
    case frame_type::grant:
      return outbox_.on_grant(f) || violated("unexpected write grant");
    case frame_type::revoke:
      return outbox_.on_revoke(f) || violated("a revoke of a message that was not accepted");
    case frame_type::revoked:
      return inbox_.on_revoked(f, why) || violated(why);
    case frame_type::close:
      peer_closed_ = true;
      inbox_.peer_closed(errc::peer_closed);
      outbox_.finish_all(errc::peer_closed);
      return true;
    default:
      return violated("unexpected frame with payload");
  }
}

bool session::begin(const frame& f, incoming_payload& where) {
  if (carries_credit(f.type) && !outbox_.on_credit(f.flow, f.credit)) {
    return violated(fmt::format("an invalid credit of {} on flow {}", f.credit, f.flow));
  }
  std::string why;
  return inbox_.begin(f, where, why) || violated(why);
}

operation* session::match_eager(const frame& f) {
  return outbox_.on_credit(f.flow, f.credit) ? inbox_.match_eager(f) : nullptr;
}

void session::arrived(const frame& f) {
  stats_.bytes_received += f.payload_bytes;
  inbox_.arrived(f);
}

void session::end(incoming_payload& where) {
  stats_.bytes_received += where.header.payload_bytes;
  inbox_.end(where);
}

bool session::violated(std::string why) {
  violation_ = std::move(why);
  return false;
}

void session::fail(const error& reason) {
  if (failed_) return;
  failed_ = with_context(reason, {.rank = who_.rank,
                                  .peer = who_.peer,
                                  .rail = who_.rail,
                                  .phase = {},
                                  .detail = {},
                                  .advice = {}});
  inbox_.drop_payloads();
  const error_code code = reason.code();
  outbox_.finish_all(code);
  inbox_.for_each([this, code](operation& op) { finish(op, code, {}); });
}

session::deadlines session::expire(operation::time_point now) {
  // Collected first: ending one operation moves others between the lists.
  std::vector<operation*> late;
  const auto collect = [&late, now](operation& op) {
    if (op.due <= now) late.push_back(&op);
  };
  outbox_.for_each(collect);
  inbox_.for_each(collect);
  deadlines found;
  for (operation* op : late) {
    if (op->what != operation::kind::send) {
      inbox_.cancel(*op, errc::timed_out);
    } else {
      outbox_.cancel(*op, errc::timed_out);
      found.stuck = found.stuck || op->at != operation::phase::done;
    }
  }
  const auto next = [&found, now](operation& op) {
    if (op.due > now) found.next = std::min(found.next, op.due);
  };
  outbox_.for_each(next);
  inbox_.for_each(next);
  return found;
}

operation* session::pop_any() noexcept {
  inbox_.drop_payloads();
  operation* op = outbox_.any();
  if (op == nullptr) op = inbox_.any();
  if (op == nullptr) op = pinned_.pop_front();
  if (op == nullptr) return done_.pop_front();
  operation_list::unlink(*op);
  return op;
}

void session::finish(operation& op, error_code result, std::string detail) {
  operation_list::unlink(op);
  if (!result) {
    switch (op.what) {
      case operation::kind::send:
        ++stats_.messages_sent;
        stats_.bytes_sent += op.bytes;
        meter_.sent(op.bytes);
        break;
      case operation::kind::recv:
        ++stats_.messages_received;
        meter_.received(op.bytes);
        break;
      case operation::kind::probe:
        break;
    }
    op.result = result;
  } else {
    set_failure(op, result, std::move(detail));
  }
  op.move_to(operation::phase::done);
  if (op.pins > 0) {
    pinned_.push_back(op);
  } else {
    queue_done(op);
  }
}

void session::queue_done(operation& op) {
  if (op.registered) remote_write_grants_->view_released(op);
  done_.push_back(op);
}

void session::set_failure(operation& op, error_code result, std::string detail) {
  op.result = result;
  error_context context{
      .rank = who_.rank,
      .peer = who_.peer,
      .rail = who_.rail,
      .phase = phase_of(op),
      .bytes_done = static_cast<std::int64_t>(op.bytes),
      .bytes_total = op.total_bytes > 0 ? static_cast<std::int64_t>(op.total_bytes) : -1,
      .detail = std::move(detail),
      .advice = std::string(advice_for(result))};
  if (failed_ && failed_->code() == result) {
    // What failed here may have been another call: this operation's phase is its own.
    std::string phase = std::move(context.phase);
    context = with_context(*failed_, context).context();
    if (context.rank == who_.rank) context.phase = std::move(phase);
  }
  op.failure = std::make_shared<const error>(result, std::move(context));
}

void session::fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) {
  view_writer_->fill(op, std::move(from), bytes);
}

void session::unpin(operation& op) {
  if (--op.pins > 0 || op.at != operation::phase::done) return;
  operation_list::unlink(op);
  queue_done(op);
}

void session::set_remote_write_grants(remote_write_grants* who) noexcept {
  remote_write_grants_ = who;
  inbox_.set_remote_write_grants(who);
}

channel_stats session::stats() const noexcept {
  channel_stats s = stats_;
  s.unexpected_bytes = inbox_.unexpected_bytes();
  s.unexpected_bytes_peak = inbox_.unexpected_bytes_peak();
  return s;
}

}  // namespace tandem::protocol
