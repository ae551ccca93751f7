// Starting and completing operations, failure and close of a link.
#include "devices/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "devices/handshake.hpp"

namespace tandem::devices {
namespace {

constexpr std::size_t max_chunk_bytes = std::size_t{4} << 20;
// Staging memory each way: at least one chunk being copied, one on the wire, and two of slack. The
// inner channel announces each chunk, and on a link that is busy both ways the reply waits behind
// the payload of the other direction, about 20 ms at 1 Gbit/s: 16 chunks of 1 MiB last longer.
constexpr std::size_t min_staged_chunks = 4, max_staged_chunks = 16;
constexpr std::size_t wanted_staged_bytes = std::size_t{16} << 20;

std::size_t staged_bytes(std::size_t chunk_bytes) noexcept {
  return chunk_bytes *
         std::clamp(wanted_staged_bytes / chunk_bytes, min_staged_chunks, max_staged_chunks);
}

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
    : link_base(inner.get_executor(), "devices", session_),
      inner_(&inner),
      copiers_(std::move(by)),
      kinds_(copiers::kinds()),
      inline_bytes_(inline_bytes_over(inner)),
      session_(limits_over(inner, options), std::move(who), options.operation_timeout,
               protocol::chunk_order::any),
      where_(where),
      requested_flags_(requested_flags(options)),
      release_timer_(get_executor()),
      nics_(std::move(nics)),
      staging_out_(staged_bytes(session_.agreed().chunk_bytes),
                   [this](mutable_view made) { return register_with_nics(made); }),
      staging_in_(staged_bytes(session_.agreed().chunk_bytes),
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
  return is_done(op);
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

void link::operations_ended() {
  release_views();
  flush();
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
  if (pending_async_++ == 0) self_ = self();
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
  read_ended_ = true;
  if (pending_async_ == 0) abandon_operations();
}

void link::flush_and_complete() {
  flush();
  complete_done();
}

void link::stop(const error& reason, bool /*notify_peer*/) {
  read_ended_ = true;
  has_current_ = false;
  for (incoming_piece* each : incoming_pieces_) each->is_known = false;
  forget_pulls(false);
  session_.fail(reason);
  if (inner_ != nullptr) inner_->fail(reason);
  post_payloads();
  send_payloads();
  // A process that has exited reads nothing; one that has only closed may still be reading.
  const bool is_gone = reason.code() == errc::peer_lost && peer_access_ == peer_access::mapped;
  if (is_gone) release_read_requests();
  release_later();
}

/// Fails this link with the error of the inner channel.
void link::inner_failed(const operation& op) {
  if (is_over()) return;
  error_context context;
  if (op.failure) context = op.failure->context();
  // An orderly close is handled in order, on the flow of frames.
  if (op.result == errc::peer_closed && context.detail.empty()) return;
  context.phase.clear();
  context.bytes_done = context.bytes_total = -1;
  fail(error(op.result, std::move(context)), true);
}

/// The peer closed in an orderly way, and all that it had sent before has been received.
void link::on_close() {
  has_current_ = false;
  protocol::frame close_frame;
  close_frame.type = protocol::frame_type::close;
  forget_pulls(true);
  session_.handle(close_frame);
  release_later();
  let_loop_end();
  send_payloads();
}

void link::complete_done() {
  if (is_polling_inner_) return complete_soon();
  link_base::complete_done();
}

/// While the inner channel or an engine has a view, `destroyed` abandons the operations with the
/// last of them.
bool link::abandon_io() noexcept {
  read_ended_ = true;
  return pending_async_ == 0;
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
  memory_location locate_memory(const const_view& memory) override {
    return handle_.locate_memory(memory);
  }
  std::unique_ptr<const mapped_memory> map_memory(const memory_location& at, std::size_t bytes,
                                                  accelerator& by) override {
    return handle_.map_memory(at, bytes, by);
  }
  void retire_freed_memory() override { handle_.retire_freed_memory(); }

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
