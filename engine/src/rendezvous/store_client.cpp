#include "rendezvous/store_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <limits>
#include <tandem/detail/connect_failure.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/log.hpp>
#include <type_traits>
#include <utility>

#include "rendezvous/store_connect.hpp"

namespace tandem::rendezvous {
namespace {

/// How long beyond rank 0's own deadline a rank waits for its reply.
constexpr std::chrono::milliseconds grace{2'000};

std::uint32_t wire_ms(std::chrono::steady_clock::duration time) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  using limits = std::numeric_limits<std::uint32_t>;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ms, 0, limits::max()));
}

template <class Reply>
Reply expect(store_reply reply) {
  if (auto* wanted = std::get_if<Reply>(&reply)) return std::move(*wanted);
  throw error(errc::protocol_violation,
              "rank 0's store sent a reply that does not match the request",
              "build all ranks from one version of Tandem");
}

}  // namespace

/// A request in flight, in the frame of the coroutine that made it.
struct store_client::waiter {
  waiter(store_client& client, std::uint64_t id) : in(client), its_id(id), done(client.executor_) {
    in.waiters_.emplace(id, this);
  }
  waiter(const waiter&) = delete;
  waiter& operator=(const waiter&) = delete;
  ~waiter() { in.waiters_.erase(its_id); }

  store_client& in;
  std::uint64_t its_id;
  asio::steady_timer done;
  std::optional<store_reply> reply;
};

store_client::store_client(const asio::any_io_executor& executor, launch_info who, settings options,
                           std::shared_ptr<const trust::credentials> trust)
    : executor_(executor),
      who_(std::move(who)),
      options_(std::move(options)),
      trust_(std::move(trust)),
      where_(endpoint_text(who_.address, who_.port)),
      started_(std::chrono::steady_clock::now()),
      changed_(executor) {}

// --- joining

asio::awaitable<bool> store_client::handshake(pointer self, tcp::socket socket, time_point until) {
  error_code ignored;
  self->socket_addresses_ = addresses_of(socket);
  self->splitter_ = frame_splitter(max_reply_bytes);
  self->stage_ = stage::handshaking;
  std::unique_ptr<trust::tls_session> session;
  if (self->trust_) {
    session =
        std::make_unique<trust::tls_session>(self->trust_, trust::tls_session::side::connects);
  }
  self->connection_ = std::make_shared<store_connection>(std::move(socket), 0, std::move(session));
  const time_point meet_by = self->started_ + self->options_.meet_timeout;
  const hello_request hello{self->who_.rank,
                            self->who_.size,
                            wire_ms(self->options_.meet_timeout),
                            wire_ms(meet_by - std::chrono::steady_clock::now()),
                            self->who_.job,
                            self->meeting_port_};
  self->connection_->send(encode_opening() + encode(store_request(hello)));
  self->connection_->start(self);
  self->changed_.expires_at(until);
  while (self->stage_ == stage::handshaking) {
    co_await self->changed_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (!ignored) break;
  }
  if (self->stage_ == stage::closed) throw *self->failure_;
  if (self->stage_ == stage::handshaking) {
    // The last attempt may have had no time for a reply: an earlier failure says more.
    if (self->handshake_failure_.empty())
      self->handshake_failure_ = "accepts connections but sends no reply";
    self->connection_->close();
    self->stage_ = stage::disconnected;
  }
  co_return self->stage_ != stage::disconnected;
}

asio::awaitable<void> store_client::wait_for_all(pointer self, time_point until) {
  error_code ignored;
  self->changed_.expires_at(until + grace);
  while (self->stage_ == stage::waiting) {
    co_await self->changed_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (!ignored) break;
  }
  // Also if a rank is lost already: `on_lost` tells.
  if (self->stage_ == stage::running) co_return;
  if (self->failure_) throw *self->failure_;
  const error late(
      errc::timed_out,
      fmt::format("rank 0 at {} accepted this rank and then stopped responding", self->where_),
      "check rank 0: is it stopped?");
  throw self->with_rank(late);
}

// --- replies and notices

void store_client::received(store_connection& from, std::string_view bytes) {
  if (&from != connection_.get()) return;
  splitter_.feed(bytes);
  while (const auto body = splitter_.next()) {
    std::optional<store_reply> reply = decode_reply(*body);
    if (!reply) {
      closed(with_rank(error(errc::protocol_violation,
                             fmt::format("rank 0's store at {} sent an invalid reply ('{}')",
                                         where_, printable(*body)))));
      return;
    }
    on(std::move(*reply));
    if (stage_ == stage::closed || left_) return;
  }
  check_stream();
}

void store_client::check_stream() {
  switch (splitter_.at()) {
    case frame_splitter::state::foreign:
      closed(with_rank(not_a_store_error(where_, splitter_.rest())));
      break;
    case frame_splitter::state::other_version:
      closed(with_rank(error(errc::version_mismatch,
                             fmt::format("rank 0's store at {} uses protocol version {}, this rank "
                                         "version {}",
                                         where_, splitter_.version(), store_version),
                             "build all ranks from one version of Tandem")));
      break;
    case frame_splitter::state::broken:
      closed(with_rank(
          error(errc::protocol_violation,
                fmt::format("rank 0's store at {} sent an empty frame or one beyond {} bytes",
                            where_, max_reply_bytes))));
      break;
    default:
      break;
  }
}

void store_client::on(store_reply reply) {
  if (auto* refused = std::get_if<refused_reply>(&reply)) {
    closed(with_rank(refused->reason));
  } else if (auto* notice = std::get_if<notice_reply>(&reply)) {
    lost(notice->reason);
  } else if (std::holds_alternative<leaving_reply>(reply)) {
    rank_0_leaving_ = true;
  } else if (std::holds_alternative<accepted_reply>(reply)) {
    if (stage_ == stage::handshaking) stage_ = stage::waiting;
    changed_.cancel();
  } else if (auto* started = std::get_if<started_reply>(&reply)) {
    if (stage_ == stage::waiting) {
      stage_ = stage::running;
      data_key_ = secret(std::string_view(started->data_key));
      take_members(*started);
    }
    wipe(std::as_writable_bytes(std::span(started->data_key)));
    changed_.cancel();
  } else if (const auto* done = std::get_if<done_reply>(&reply)) {
    answer(done->id, std::move(reply));
  } else if (const auto* values = std::get_if<values_reply>(&reply)) {
    answer(values->id, std::move(reply));
  } else if (const auto* number = std::get_if<number_reply>(&reply)) {
    answer(number->id, std::move(reply));
  } else if (const auto* failed = std::get_if<failed_reply>(&reply)) {
    answer(failed->id, std::move(reply));
  }
}

/// Of a shrunk job: this rank's number in it.
void store_client::take_members(const started_reply& started) {
  const std::vector<int>& members = started.members;
  if (members.empty()) return;
  const auto at = std::find(members.begin(), members.end(), who_.rank);
  if (at == members.end() || started.ports.size() != members.size()) {
    closed(with_rank(error(errc::protocol_violation, "the shrunk job does not contain this rank")));
    return;
  }
  who_.rank = static_cast<int>(at - members.begin());
  who_.size = static_cast<int>(members.size());
  who_.serves_store = who_.is_server() && who_.rank == 0;
  previous_ranks_ = members;
  meeting_ports_ = started.ports;
}

void store_client::answer(std::uint64_t id, store_reply reply) {
  const auto found = waiters_.find(id);
  if (found == waiters_.end()) return;  // its coroutine was cancelled
  found->second->reply = std::move(reply);
  found->second->done.cancel();
}

void store_client::ended(store_connection& from, const error_code& why) {
  from.close();
  if (&from != connection_.get()) return;
  log(log_level::debug, "rendezvous",
      fmt::format("the connection to {} ended: {}", where_, why.message()));
  if (stage_ == stage::handshaking) {
    handshake_failure_ = "closes connections before the handshake";
    stage_ = stage::disconnected;
    changed_.cancel();
  } else if (rank_0_leaving_) {
    closed(error(errc::peer_closed, "rank 0 has left, which closed the store",
                 "let rank 0 leave last, or send requests before it leaves"));
  } else {
    lost(rank_0_lost_error(where_, detail::lost_packets_text(why)));
    closed(*failure_);
  }
}

void store_client::untrusted(store_connection& from, const trust::tls_session& session) {
  if (&from != connection_.get()) {
    from.close();
    return;
  }
  const error why = with_rank(authentication_error(where_, session, *trust_));
  if (stage_ != stage::handshaking) lost(why);
  closed(why);
}

error store_client::with_rank(const error& inner) const {
  error_context outer;
  outer.rank = who_.rank;
  return with_context(inner, outer);
}

void store_client::wake_all() {
  changed_.cancel();
  for (const auto& [id, each] : waiters_) each->done.cancel();
}

void store_client::closed(const error& why) {
  stage_ = stage::closed;
  if (!failure_) failure_ = why;
  if (connection_) connection_->close();
  wake_all();
}

void store_client::lost(const error& reason) {
  if (failure_) return;
  const error cause = reason_at(who_.rank, reason);
  given_up_ = cause.context().peer != reason.context().peer;
  failure_ = cause;
  job_failure_ = reason;
  if (stage_ != stage::running) {
    closed(cause);
    return;
  }
  wake_all();
  if (lost_handler_) {
    const store::lost_handler handler = std::exchange(lost_handler_, {});
    handler(cause);
  } else {
    cause_ = cause;
  }
}

void store_client::on_lost(store::lost_handler handler) {
  lost_handler_ = std::move(handler);
  if (!cause_ || !lost_handler_) return;
  asio::post(executor_, [self = shared_from_this()] {
    if (!self->cause_ || !self->lost_handler_) return;
    const error cause = *std::exchange(self->cause_, {});
    const store::lost_handler pending_handler = std::exchange(self->lost_handler_, {});
    pending_handler(cause);
  });
}

// --- requests

asio::awaitable<store_reply> store_client::send_request(pointer self, std::uint64_t id,
                                                        store_request request,
                                                        std::chrono::milliseconds limit,
                                                        std::string what) {
  if (self->failure_) throw *self->failure_;
  std::string frame = encode(request);
  if (frame.size() > frame_header_bytes + max_frame_bytes) {
    const error large(errc::limit_exceeded, fmt::format("{}: {} bytes", what, frame.size()),
                      fmt::format("a message to the store has at most {} bytes", max_frame_bytes));
    throw self->with_rank(large);
  }
  waiter pending(*self, id);
  self->connection_->send(std::move(frame));
  pending.done.expires_after(limit);
  error_code stopped;
  co_await pending.done.async_wait(asio::redirect_error(asio::use_awaitable, stopped));
  if (pending.reply) {
    if (const auto* failed = std::get_if<failed_reply>(&*pending.reply)) {
      throw self->with_rank(failed->reason);
    }
    co_return std::move(*pending.reply);
  }
  if (self->failure_) throw *self->failure_;
  if (stopped) throw boost::system::system_error(stopped, what);
  error_context c;
  c.rank = self->who_.rank;
  c.peer = 0;
  c.detail = fmt::format("{}: rank 0 did not answer within {}", what, detail::to_text(limit));
  c.advice = "check rank 0: is it stopped?";
  throw error(make_error_code(errc::timed_out), std::move(c));
}

asio::awaitable<void> store_client::set(pointer self, std::string key, std::string value) {
  const std::uint64_t id = self->next_id_++;
  std::string what = fmt::format("setting '{}'", printable(key));
  store_request request = set_request{id, std::move(key), std::move(value)};
  store_reply reply = co_await send_request(self, id, std::move(request),
                                            self->options_.operation_timeout, std::move(what));
  expect<done_reply>(std::move(reply));
}

asio::awaitable<std::vector<std::string>> store_client::get(pointer self,
                                                            std::vector<std::string> keys,
                                                            std::chrono::milliseconds limit) {
  const std::uint64_t id = self->next_id_++;
  const std::size_t count = keys.size();
  std::string what = fmt::format("reading {} {}", count, count == 1 ? "key" : "keys");
  store_request request = get_request{id, wire_ms(limit), std::move(keys)};
  store_reply reply =
      co_await send_request(self, id, std::move(request), limit + grace, std::move(what));
  values_reply found = expect<values_reply>(std::move(reply));
  if (found.values.size() != count) {
    throw error(errc::protocol_violation, "rank 0's store sent the wrong number of values");
  }
  co_return std::move(found.values);
}

asio::awaitable<std::int64_t> store_client::add(pointer self, std::string key,
                                                std::int64_t amount) {
  const std::uint64_t id = self->next_id_++;
  std::string what = fmt::format("adding to '{}'", printable(key));
  store_request request = add_request{id, std::move(key), amount};
  store_reply reply = co_await send_request(self, id, std::move(request),
                                            self->options_.operation_timeout, std::move(what));
  co_return expect<number_reply>(std::move(reply)).value;
}

// --- the end

void store_client::report(const error& reason) {
  if (left_ || failure_ || stage_ != stage::running) return;
  connection_->send(encode(store_request(report_request{reason})));
}

void store_client::leave() {
  if (std::exchange(left_, true)) return;
  lost_handler_ = {};
  cause_.reset();
  if (connection_) {
    connection_->send(encode(store_request(leave_request{})));
    connection_->finish();
  }
  stage_ = stage::closed;
  if (!failure_) failure_ = error(errc::channel_closed, "this rank has left the store");
  wake_all();
}

void store_client::stop() noexcept {
  lost_handler_ = {};
  cause_.reset();
  if (!left_) closed(error(errc::channel_closed, "this rank's store was destroyed"));
}

}  // namespace tandem::rendezvous
