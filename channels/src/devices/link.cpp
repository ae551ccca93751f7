// Starting and completing operations, failure and close of a link.
#include "devices/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "devices/flows.hpp"
#include "devices/greeting.hpp"

namespace tandem::devices {
namespace {

constexpr std::chrono::seconds stuck_limit{1};  // without progress of a late send's current piece
constexpr std::size_t most_chunk_bytes = std::size_t{4} << 20;
constexpr std::size_t staged_chunks =
    4;  // each way: one being copied, one on the wire, two of slack

/// Derived from the limits of the inner channel, so both ends know them before the handshake, which
/// adds the credits.
protocol::limits limits_over(const channel& inner, const settings& options) noexcept {
  const channel_limits& below = inner.limits();
  settings same = options;
  same.eager_bytes = below.eager_bytes;
  same.chunk_bytes = std::min(below.chunk_bytes, most_chunk_bytes);
  same.max_flows = below.max_flows;
  return protocol::offered(same);
}

/// Frame and payload together must fit an eager message of the inner channel.
std::size_t inside_bytes_over(const channel& inner) noexcept {
  const std::size_t eager = inner.limits().eager_bytes;
  const std::size_t room = eager > protocol::frame_bytes ? eager - protocol::frame_bytes : 0;
  return std::min(room, most_inside_bytes);
}

std::uint32_t wishes(const settings& options) noexcept {
  return (options.peer_copies ? wants_peer_copies : 0) |
         (options.shared_staging ? wants_shared_staging : 0);
}

}  // namespace

link::link(channel& inner, std::shared_ptr<copiers> by, const settings& options,
           protocol::identity who, const whereabouts& where, std::shared_ptr<nic_memory> nics)
    : pending_owner(inner.get_executor()),
      inner_(&inner),
      executor_(inner.get_executor()),
      copiers_(std::move(by)),
      kinds_(copiers::kinds()),
      inside_bytes_(inside_bytes_over(inner)),
      session_(limits_over(inner, options), std::move(who), options.operation_timeout,
               protocol::chunk_order::any),
      timer_(executor_),
      where_(where),
      wants_(wishes(options)),
      patience_(executor_),
      nics_(std::move(nics)),
      staging_out_(staged_chunks * session_.agreed().chunk_bytes,
                   [this](mutable_view made) { return let_nics_reach(made); }),
      staging_in_(staged_chunks * session_.agreed().chunk_bytes,
                  [this](mutable_view made) { return let_nics_reach(made); }),
      lent_(staging_in_.capacity_bytes()) {
  session_.fills_by(this);
}

void link::run() {
  const auto self = shared_from_this();
  greeting mine{.credit_bytes = session_.agreed().credit_bytes,
                .inside_bytes = static_cast<std::uint32_t>(inside_bytes_),
                .where = where_,
                .flags = wants_};
  for (const memory_kind kind : kinds_) mine.kinds |= 1U << static_cast<unsigned>(kind);
  greeting_ = std::make_unique<std::byte[]>(greeting_bytes);
  encode(mine, std::span<std::byte, greeting_bytes>(greeting_.get(), greeting_bytes));
  greeting_op_.what = operation::kind::send;
  greeting_op_.flow = frame_flow;
  greeting_op_.view = {greeting_.get(), greeting_bytes};
  greeting_op_.owner = this;
  greeting_op_.complete = [](operation& op) {
    auto& of = *static_cast<link*>(op.owner);
    const auto keep = of.came_back();
    if (op.result) of.inner_failed(op);
    of.settle();
  };
  greeting_op_.destroy = [](operation& op) noexcept { static_cast<link*>(op.owner)->destroyed(); };
  start_inner(greeting_op_);
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
      if (home_ == nullptr) home_ = &by;
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
    if (is_long) look();
  }
  const bool is_done = session_.take_if_done(op);
  complete_soon();
  if (is_done) return true;
  if (op.due < timer_due_) arm_timer(op.due);
  return false;
}

bool link::linger(operation& op) {
  control_slot& slot = control_[next_control_];
  if (inner_ == nullptr || read_ended_ || slot.is_over || !inner_->linger(slot.op)) return false;
  const auto keep = came_back();
  slot.is_over = true;
  read_frames();
  flush();
  const bool is_over = op.is_over() && session_.take_if_done(op);
  complete_soon();
  return is_over;
}

/// Polls the inner channel. In a window of long messages the first may be announced or accepted
/// already: its transfer begins while the others are being started.
void link::look() {
  if (inner_ == nullptr || read_ended_ || is_looking_) return;
  is_looking_ = true;
  inner_->look();
  is_looking_ = false;
}

void link::cancel(operation& op) {
  session_.cancel(op);
  release_views();
  flush();
  complete_soon();
}

/// True: it is complete, and its handler will not be called.
bool link::start_inner(operation& op) {
  op.deadline = operation::for_ever;  // the user's operations have their own
  if (inner_ == nullptr) {
    op.result = errc::channel_closed;
    return true;
  }
  if (inner_->start(op)) return true;
  went_out();
  return false;
}

void link::went_out() {
  if (outside_++ == 0) self_ = shared_from_this();
}

std::shared_ptr<link> link::came_back() noexcept {
  ++moved_;
  if (--outside_ == 0) return std::exchange(self_, nullptr);
  return self_;
}

/// The loop is being destroyed. The user's operations are abandoned with the last pending
/// operation, as only then nothing accesses their views.
void link::destroyed() noexcept {
  const auto keep = came_back();
  closed_ = read_ended_ = true;
  if (outside_ == 0) abandon_users();
}

void link::settle() {
  flush();
  complete_done();
}

void link::fail(const error& reason, bool fail_inner) {
  if (closed_) return;
  closed_ = read_ended_ = true;
  const auto self = shared_from_this();
  has_one_ = false;
  for (landing_piece* each : landings_) each->is_known = false;
  forget_pulls(false);
  session_.fail(reason);
  timer_.cancel();
  if (inner_ != nullptr && fail_inner) inner_->fail(reason);
  post_payloads();
  send_payloads();
  // A process that has exited reads nothing; one that has only closed may still be reading.
  const bool is_gone = reason.code() == errc::peer_lost && reads_ == reading::mapped;
  if (is_gone) let_go_of_referrals();
  let_go_later();
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

void link::broken(const std::string& why) {
  const error reason(errc::protocol_violation, "the peer violated the protocol: " + why,
                     "make the fabric the same way on every rank, with one version of Tandem");
  log(log_level::warning, "devices", reason.what());
  fail(reason, true);
}

/// The peer closed in an orderly way, and all that it had sent before has been received.
void link::heard_goodbye() {
  has_one_ = false;
  protocol::frame close_frame;
  close_frame.type = protocol::frame_type::goodbye;
  forget_pulls(true);
  session_.handle(close_frame);
  let_go_later();
  timer_.cancel();
  send_payloads();
}

void link::complete_done() {
  if (is_looking_) return complete_soon();
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
    if (found.stuck && self->moved_ == self->moved_when_late_) {
      self->fail(error(errc::timed_out, "the peer takes no more bytes", "is the peer stopped?"),
                 true);
    }
    // The current piece has to be finished; while it makes progress, the channel stays open.
    self->moved_when_late_ = found.stuck ? self->moved_ : none_late;
    if (found.stuck) found.next = std::min(found.next, now + stuck_limit);
    self->arm_timer(found.next);
    self->release_views();
    self->settle();
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
  if (outside_ == 0) abandon_users();
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
  bool linger(operation& op) override { return handle_.linger(op); }
  void cancel(operation& op) noexcept override { handle_.cancel(op); }

 private:
  const std::unique_ptr<channel> inner_;
  const std::shared_ptr<link> link_;
  link_channel handle_;
};

}  // namespace

std::unique_ptr<channel> make_channel(std::unique_ptr<channel> inner, std::shared_ptr<copiers> by,
                                      const settings& options, protocol::identity who,
                                      const whereabouts& where, std::shared_ptr<nic_memory> nics) {
  if (who.rail.empty()) who.rail = "devices";
  auto made = std::make_shared<link>(*inner, std::move(by), options, std::move(who), where,
                                     std::move(nics));
  made->run();
  return std::make_unique<owning_channel>(std::move(inner), std::move(made));
}

}  // namespace tandem::devices
