// Starting and completing operations, failure and close of a link.
#include "devices/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "devices/handshake.hpp"

namespace tandem::devices {
namespace {

constexpr std::chrono::seconds stall_timeout{1};  // without progress of a late send's current piece
constexpr std::size_t max_chunk_bytes = std::size_t{4} << 20;
constexpr std::size_t staged_chunks =
    4;  // each way: one being copied, one on the wire, two of slack

/// Derived from the limits of the inner channel, so both ends know them before the handshake, which
/// adds the credits.
protocol::limits limits_over(const channel& inner, const settings& options) noexcept {
  const channel_limits& below = inner.limits();
  settings same = options;
  same.eager_bytes = below.eager_bytes;
  same.chunk_bytes = std::min(below.chunk_bytes, max_chunk_bytes);
  same.max_flows = below.max_flows;
  return protocol::offered(same);
}

/// Frame and payload together must fit an eager message of the inner channel.
std::size_t inline_bytes_over(const channel& inner) noexcept {
  const std::size_t eager = inner.limits().eager_bytes;
  const std::size_t room = eager > protocol::frame_bytes ? eager - protocol::frame_bytes : 0;
  return std::min(room, max_inline_bytes);
}

std::uint32_t requested_flags(const settings& options) noexcept {
  return (options.peer_copies ? wants_peer_copies : 0) |
         (options.shared_staging ? wants_shared_staging : 0);
}

}  // namespace

link::link(channel& inner, std::shared_ptr<copiers> by, const settings& options,
           protocol::identity who, const process_location& where, std::shared_ptr<nic_memory> nics)
    : pending_owner(inner.get_executor()),
      inner_(&inner),
      executor_(inner.get_executor()),
      copiers_(std::move(by)),
      kinds_(copiers::kinds()),
      inline_bytes_(inline_bytes_over(inner)),
      session_(limits_over(inner, options), std::move(who), options.operation_timeout,
               protocol::chunk_order::any),
      timer_(executor_),
      where_(where),
      requested_flags_(requested_flags(options)),
      release_timer_(executor_),
      nics_(std::move(nics)),
      staging_out_(staged_chunks * session_.agreed().chunk_bytes,
                   [this](mutable_view made) { return register_with_nics(made); }),
      staging_in_(staged_chunks * session_.agreed().chunk_bytes,
                  [this](mutable_view made) { return register_with_nics(made); }),
      peer_staging_(staging_in_.capacity_bytes()) {
  session_.set_view_writer(this);
}

void link::run() {
  const auto self = shared_from_this();
  handshake mine{.credit_bytes = session_.agreed().credit_bytes,
                 .inline_bytes = static_cast<std::uint32_t>(inline_bytes_),
                 .where = where_,
                 .flags = requested_flags_};
  for (const memory_kind kind : kinds_) mine.kinds |= 1U << static_cast<unsigned>(kind);
  handshake_ = std::make_unique<std::byte[]>(handshake_bytes);
  encode(mine, std::span<std::byte, handshake_bytes>(handshake_.get(), handshake_bytes));
  handshake_op_.what = operation::kind::send;
  handshake_op_.flow = frame_flow;
  handshake_op_.view = {handshake_.get(), handshake_bytes};
  handshake_op_.owner = this;
  handshake_op_.complete = [](operation& op) {
    auto& of = *static_cast<link*>(op.owner);
    const auto keep = of.end_async();
    if (op.result) of.inner_failed(op);
    of.flush_and_complete();
  };
  handshake_op_.destroy = [](operation& op) noexcept { static_cast<link*>(op.owner)->destroyed(); };
  start_inner(handshake_op_);
  start_reading();
  complete_soon();
}

std::vector<rail_stats> link::rails() const {
  return inner_ != nullptr ? inner_->rails() : std::vector<rail_stats>();
}

bool link::start(operation& op) {
  std::optional<error> refused;
  const bool is_long = op.view.bytes > session_.agreed().eager_bytes;
  try {
    if (op.view.kind != memory_kind::host) {
      copier& by = copiers_->of(op.view);
      if (default_copier_ == nullptr) default_copier_ = &by;
      // Describes the memory to the peer before the message is announced or accepted.
      if (is_long && exports_) exports_->find(by.of(), op.view);
    }
  } catch (const error& why) {
    refused = why;
  }
  if (refused) {
    session_.refuse(op, *refused);
  } else {
    session_.start(op);
    flush();
    if (is_long) make_progress();
  }
  const bool is_done = session_.take_if_done(op);
  complete_soon();
  if (is_done) return true;
  if (op.due < timer_due_) arm_timer(op.due);
  return false;
}

bool link::spin_wait(operation& op) {
  control_slot& slot = control_[next_control_];
  if (inner_ == nullptr || read_ended_ || slot.is_over || !inner_->spin_wait(slot.op)) return false;
  const auto keep = end_async();
  slot.is_over = true;
  read_frames();
  flush();
  const bool is_over = op.is_over() && session_.take_if_done(op);
  complete_soon();
  return is_over;
}

/// Polls the inner channel. In a window of long messages the first may be announced or accepted
/// already: its transfer begins while the others are being started.
void link::make_progress() {
  if (inner_ == nullptr || read_ended_ || is_polling_inner_) return;
  is_polling_inner_ = true;
  inner_->make_progress();
  is_polling_inner_ = false;
}

void link::cancel(operation& op) {
  session_.cancel(op);
  release_views();
  flush();
  complete_soon();
}

/// True: it is complete, and its handler will not be called.
bool link::start_inner(operation& op) {
  op.deadline = operation::no_deadline;  // the user's operations have their own
  if (inner_ == nullptr) {
    op.result = errc::channel_closed;
    return true;
  }
  if (inner_->start(op)) return true;
  begin_async();
  return false;
}

void link::begin_async() {
  if (pending_async_++ == 0) self_ = shared_from_this();
}

std::shared_ptr<link> link::end_async() noexcept {
  ++moved_;
  if (--pending_async_ == 0) return std::exchange(self_, nullptr);
  return self_;
}

/// The loop is being destroyed. The user's operations are abandoned with the last pending
/// operation, as only then nothing accesses their views.
void link::destroyed() noexcept {
  const auto keep = end_async();
  closed_ = read_ended_ = true;
  if (pending_async_ == 0) abandon_users();
}

void link::flush_and_complete() {
  flush();
  complete_done();
}

void link::fail(const error& reason, bool fail_inner) {
  if (closed_) return;
  closed_ = read_ended_ = true;
  const auto self = shared_from_this();
  has_current_ = false;
  for (incoming_piece* each : incoming_pieces_) each->is_known = false;
  forget_pulls(false);
  session_.fail(reason);
  timer_.cancel();
  if (inner_ != nullptr && fail_inner) inner_->fail(reason);
  post_payloads();
  send_payloads();
  // A process that has exited reads nothing; one that has only closed may still be reading.
  const bool is_gone = reason.code() == errc::peer_lost && peer_access_ == peer_access::mapped;
  if (is_gone) release_read_requests();
  release_later();
  complete_soon();
}

/// Fails this link with the error of the inner channel.
void link::inner_failed(const operation& op) {
  if (closed_) return;
  error_context context;
  if (op.failure) context = op.failure->context();
  // An orderly close is handled in order, on the flow of frames.
  if (op.result == errc::peer_closed && context.detail.empty()) return;
  context.phase.clear();
  context.bytes_done = context.bytes_total = -1;
  fail(error(op.result, std::move(context)), true);
}

void link::protocol_violation(const std::string& why) {
  const error reason(errc::protocol_violation, "the peer violated the protocol: " + why,
                     "make the fabric the same way on every rank, with one version of Tandem");
  log(log_level::warning, "devices", reason.what());
  fail(reason, true);
}

/// The peer closed in an orderly way, and all that it had sent before has been received.
void link::on_close() {
  has_current_ = false;
  protocol::frame close_frame;
  close_frame.type = protocol::frame_type::close;
  forget_pulls(true);
  session_.handle(close_frame);
  release_later();
  timer_.cancel();
  send_payloads();
}

void link::complete_done() {
  if (is_polling_inner_) return complete_soon();
  while (operation* op = session_.pop_done()) op->complete(*op);
}

/// Operations complete on the executor, never inside the call that started them.
void link::complete_soon() {
  if (completion_posted_ || !session_.has_done()) return;
  completion_posted_ = true;
  asio::post(executor_, [self = shared_from_this()] {
    self->completion_posted_ = false;
    self->complete_done();
  });
}

void link::arm_timer(operation::time_point when) {
  timer_due_ = when;
  if (session_.is_over() || when == operation::time_point::max()) return;
  timer_.expires_at(when);
  timer_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self || self->session_.is_over()) return;
    const auto now = std::chrono::steady_clock::now();
    auto found = self->session_.expire(now);
    if (found.stuck && self->moved_ == self->progress_when_late_) {
      self->fail(error(errc::timed_out, "the peer takes no more bytes", "is the peer stopped?"),
                 true);
    }
    // The current piece has to be finished; while it makes progress, the channel stays open.
    self->progress_when_late_ = found.stuck ? self->moved_ : no_late_send;
    if (found.stuck) found.next = std::min(found.next, now + stall_timeout);
    self->arm_timer(found.next);
    self->release_views();
    self->flush_and_complete();
  });
}

void link::abandon_users() noexcept {
  while (operation* op = session_.pop_any()) {
    if (op->destroy != nullptr) op->destroy(*op);
  }
}

/// While the inner channel or an engine has a view, `destroyed` does this with the last of them.
void link::abandon() noexcept {
  const auto self = weak_from_this().lock();
  closed_ = read_ended_ = true;
  if (pending_async_ == 0) abandon_users();
}

namespace {

class owning_channel final : public channel {
 public:
  owning_channel(std::unique_ptr<channel> inner, std::shared_ptr<link> over)
      : inner_(std::move(inner)), link_(std::move(over)), handle_(link_) {}
  ~owning_channel() override {
    close();
    link_->forget_inner();
  }
  asio::any_io_executor get_executor() const noexcept override { return handle_.get_executor(); }
  const channel_limits& limits() const noexcept override { return handle_.limits(); }
  channel_stats stats() const noexcept override { return handle_.stats(); }
  std::vector<rail_stats> rails() const override { return handle_.rails(); }
  void fail(const error& reason) noexcept override { handle_.fail(reason); }
  bool start(operation& op) override { return handle_.start(op); }
  bool spin_wait(operation& op) override { return handle_.spin_wait(op); }
  void cancel(operation& op) noexcept override { handle_.cancel(op); }

 private:
  const std::unique_ptr<channel> inner_;
  const std::shared_ptr<link> link_;
  link_channel handle_;
};

}  // namespace

std::unique_ptr<channel> make_channel(std::unique_ptr<channel> inner, std::shared_ptr<copiers> by,
                                      const settings& options, protocol::identity who,
                                      const process_location& where,
                                      std::shared_ptr<nic_memory> nics) {
  if (who.rail.empty()) who.rail = "devices";
  auto made = std::make_shared<link>(*inner, std::move(by), options, std::move(who), where,
                                     std::move(nics));
  made->run();
  return std::make_unique<owning_channel>(std::move(inner), std::move(made));
}

}  // namespace tandem::devices
