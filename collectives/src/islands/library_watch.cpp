#include "islands/library_watch.hpp"

#include <fmt/format.h>

#include <utility>

namespace tandem::detail {
namespace {

std::vector<int> members_of(const group& in) {
  std::vector<int> all;
  for (int rank = 0; rank < in.size(); ++rank) all.push_back(in.member(rank));
  return all;
}

boost::asio::awaitable<void> connect(std::shared_ptr<group> in, int peer) {
  co_await in->connect(peer);
}

}  // namespace

library_watch::library_watch(std::shared_ptr<group> over, std::span<const int> neighbours,
                             std::uint64_t queue, flow_id flow, failure_handler what)
    : over_(std::move(over)),
      queue_(queue),
      flow_(flow),
      on_failure_(std::move(what)),
      calls_(over_->rank(), members_of(*over_), neighbours),
      timer_(over_->executor()) {}

void library_watch::stop() noexcept {
  over_.reset();
  timer_.cancel();
  in_flight_.drop();
  for (const auto& [peer, each] : peers_) {
    if (each.connecting) each.connecting->cancel();
  }
}

void library_watch::start() {
  timer_.expires_after(interval);
  timer_.async_wait([weak = weak_from_this()](const error_code& cancelled) {
    const std::shared_ptr<library_watch> self = weak.lock();
    if (!cancelled && self && self->over_) self->poll();
  });
}

void library_watch::poll() {
  if (over_->failed()) return;
  // A report may end the watch.
  for (int peer = 0; over_ && !over_->failed() && peer < over_->size(); ++peer) {
    if (peer != over_->rank() && over_->connected(peer)) receive_from(peer);
  }
  if (!over_ || over_->failed()) return;
  for (const int peer : calls_.peers()) {
    if (over_->connected(peer)) {
      report_to(peer);
    } else {
      connect_to(peer);
    }
  }
  look_for_late();
  if (over_ && !over_->failed()) start();
}

/// If that fails, so does the job, or it is tried again.
void library_watch::connect_to(int peer) {
  std::shared_ptr<cancellable>& connecting = peers_[peer].connecting;
  if (connecting) return;
  const auto running = connecting = std::make_shared<cancellable>();
  running->start(over_->executor(), connect(over_, peer),
                 [weak = weak_from_this(), running, peer](const std::exception_ptr&) {
                   if (const auto self = weak.lock()) self->peers_[peer].connecting.reset();
                 });
}

void library_watch::report_to(int peer) {
  if (peers_[peer].is_sending) return;
  const std::optional<library_report> next = calls_.next_report(peer);
  if (!next) return;
  peers_[peer].is_sending = true;
  const auto one = std::make_shared<message>(operation::kind::send, over_->to(peer), flow_);
  one->payload = *next;
  one->payload.queue = queue_;
  one->deadline = operation::no_deadline;
  in_flight_.start(one, [this, peer](message&) { peers_[peer].is_sending = false; });
}

void library_watch::receive_from(int peer) {
  if (std::exchange(peers_[peer].is_receiving, true)) return;
  const auto one = std::make_shared<message>(operation::kind::recv, over_->to(peer), flow_);
  one->deadline = operation::no_deadline;
  in_flight_.start(one, [this, peer](message& ended) {
    if (ended.result) return;
    peers_[peer].is_receiving = false;
    take(peer, ended);
  });
}

/// The next one is received at the next poll: a peer cannot keep this rank busy.
void library_watch::take(int from, const message& report) {
  const bool is_report =
      report.bytes == sizeof report.payload && report.payload.queue == queue_;  // not an older one
  if (!is_report || over_->failed()) return;
  const auto difference = calls_.take(from, report.payload, library_log::clock::now());
  if (!difference) return;
  const bool is_elsewhere = difference->find("(channels)") != std::string::npos;
  fail(errc::call_mismatch, from, *difference,
       is_elsewhere ? "give the data of every rank in the memory of its GPU"
                    : "make the same calls in the same order on every rank");
}

void library_watch::look_for_late() {
  const std::chrono::milliseconds limit(limit_ms_.load());
  if (limit.count() == 0 || !over_ || over_->failed()) return;
  const std::optional<int> late = calls_.find_late(limit, library_log::clock::now());
  if (!late) return;
  fail(errc::timed_out, *late,
       fmt::format("{} after {} s", calls_.missing_text(*late),
                   std::chrono::duration<double>(limit).count()),
       "look for a rank that is stopped or has not made the same calls, or give operations more "
       "time");
}

void library_watch::fail(errc code, int peer, std::string detail, const char* advice) {
  const error why(code, {.rank = over_->job_rank(),
                         .peer = over_->member(peer),
                         .rail = {},
                         .phase = "calls of the vendor's library",
                         .detail = std::move(detail),
                         .advice = advice});
  over_->fail(why);
  if (const auto then = std::exchange(on_failure_, nullptr)) then(why);
}

}  // namespace tandem::detail
