#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/use_awaitable.hpp>
#include <span>
#include <tandem/detail/deferred_calls.hpp>
#include <tandem/detail/stream_word.hpp>
#include <tandem/kernel_collectives.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "communicator/group.hpp"
#include "islands/peer_watch.hpp"
#include "plan/layout.hpp"
#include "reduce/device_kernels.hpp"
#include "reduce/device_queue.hpp"
#include "reduce/reducer.hpp"
#include "streams/kernel_steps.hpp"

namespace tandem {
namespace {

using call = kernel_collectives::call;
using detail::reduces;

/// Of `kernel_messages::make`.
constexpr std::uint16_t which_messages = 1;

/// What has to be the same on all ranks but for the bytes, which messages compare. Not 0.
std::uint32_t number_of(const call& what) {
  std::uint32_t number = 1U << 31 | static_cast<std::uint32_t>(what.what) << 24;
  if (reduces(what.what)) {
    number |= static_cast<std::uint32_t>(what.type) << 20;
    number |= static_cast<std::uint32_t>(what.how.op) << 16;
  }
  return number | static_cast<std::uint16_t>(what.root);
}

bool overlap(const const_view& a, const const_view& b) {
  const auto first = [](const const_view& of) { return static_cast<const char*>(of.data); };
  return first(a) < first(b) + b.bytes && first(b) < first(a) + a.bytes;
}
bool is_aligned(const const_view& what, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(what.data) % bytes == 0 && what.bytes % bytes == 0;
}
/// Apart, or in place: `part` is `all`, or the rank's own block of it.
bool are_apart(const const_view& part, const const_view& all, std::size_t own_offset) {
  return !overlap(part, all) || part.data == static_cast<const char*>(all.data) + own_offset;
}

}  // namespace

/// What a rank's kernels use besides the messages.
class kernel_collectives::memory {
 public:
  memory(accelerator& of, std::size_t bytes)
      : of_(of),
        kernels_(detail::device_kernels::of(of)),
        scratch_(bytes, of.kind(), of.device()),
        done_(of.make_event()) {}
  ~memory() { of_.free_event(done_); }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;

  const std::shared_ptr<detail::device_kernels>& kernels() const noexcept { return kernels_; }
  std::span<char> scratch() const noexcept {
    return {static_cast<char*>(scratch_.view().data), scratch_.view().bytes};
  }
  /// Later work on that stream uses the scratch memory.
  void use_on(accelerator::stream which) {
    if (is_used_ && last_ != which) of_.await(which, done_);
    last_ = which;
  }
  void was_used() {
    of_.record(done_, last_);
    is_used_ = true;
  }
  bool is_idle() const noexcept {
    try {
      return !is_used_ || of_.is_complete(done_);
    } catch (const error&) {
      return true;  // a failed device accesses nothing any more
    }
  }

 private:
  accelerator& of_;
  const std::shared_ptr<detail::device_kernels> kernels_;
  const buffer scratch_;
  const accelerator::event done_;
  accelerator::stream last_ = nullptr;
  bool is_used_ = false;
};

/// Queued on a stream.
class kernel_collectives::steps final : public detail::kernel_steps {
 public:
  steps(const kernel_collectives& of, const call& what, accelerator::stream on)
      : of_(of),
        number_(number_of(what)),
        type_(what.type),
        combining_(detail::work_of(what.how.op)),
        stream_(on),
        work_(of.memory_->kernels(), on),
        by_(what.type, what.how, static_cast<int>(of.messages_.size()) + 1, &work_) {}

  bool prepares() const noexcept { return by_.prepares(); }
  launched take_launched() noexcept { return {std::move(ends_), is_complete_then_}; }

  void exchange(std::span<const transfer> messages) override {
    launched_.clear();
    for (const transfer& each : messages) {
      launched_.push_back({of_.between(each.peer), each.is_send, {each.data, each.bytes}, number_});
    }
    ends_ = kernel_messages::launch(launched_, stream_);
    is_complete_then_ = true;
  }
  void exchange_and_combine(const combination& what) override {
    const accelerator::kernel by = of_.memory_->kernels()->find_exchange(type_, combining_);
    ends_ = of_.messages_.front()->launch_exchange({.sent = {what.sent, what.bytes},
                                                    .combined = {what.combined, what.bytes},
                                                    .into = {what.into, what.bytes},
                                                    .call = number_},
                                                   by, stream_);
    is_complete_then_ = true;
  }
  void copy(char* into, const char* from, std::size_t bytes) override {
    work_.copy(into, from, bytes);
  }
  void prepare(char* into, const char* from, std::size_t bytes) override {
    by_.prepare(into, from, bytes);
  }
  void combine(char* into, const char* a, const char* b, std::size_t bytes) override {
    by_.combine(into, a, b, bytes);
    is_complete_then_ = false;
  }
  void finish(char* data, std::size_t bytes) override {
    by_.finish({data, bytes});
    if (by_.finishes()) is_complete_then_ = false;
  }

 private:
  const kernel_collectives& of_;
  const std::uint32_t number_;
  const data_type type_;
  const detail::kernel_work combining_;
  const accelerator::stream stream_;
  detail::device_work work_;
  const detail::reducer by_;
  std::vector<kernel_messages::message> launched_;
  std::vector<kernel_messages::end> ends_;
  bool is_complete_then_ = false;
};

namespace {

/// Kernels reach the memory of each other, or else are relayed if they may be.
asio::awaitable<kernel_messages::made> make_pair(communicator& over, int peer, accelerator& of,
                                                 kernel_path how, std::string why_not,
                                                 kernel_messages::relay_handlers what) {
  const auto& host_of = over.internals()->agreed().known().host_of_rank;
  const auto host = [&](int rank) { return host_of[static_cast<std::size_t>(rank)]; };
  if (how != kernel_path::relayed && host(peer) == host(over.rank())) {
    kernel_messages::made direct =
        co_await kernel_messages::make(over, peer, of, which_messages, why_not);
    if (direct.messages || direct.take_turns || how == kernel_path::direct) co_return direct;
  }
  co_return co_await kernel_messages::make_relayed(over, peer, of, std::move(what), which_messages,
                                                   std::move(why_not));
}

}  // namespace

asio::awaitable<kernel_collectives::made> kernel_collectives::make(
    communicator& over, accelerator& of, std::size_t scratch_bytes,
    kernel_messages::relay_handlers what, kernel_path how) {
  made outcome;
  const int ranks = over.size(), rank = over.rank();
  if (ranks < 2 || ranks > max_ranks) {
    outcome.why_not = fmt::format("kernels carry collectives of 2 to {} ranks", max_ranks);
  } else if (how == kernel_path::direct &&
             detail::layout(over.internals()->agreed().known().host_of_rank).hosts() > 1) {
    outcome.why_not = "the ranks are on several hosts";
  }
  if (!outcome.why_not.empty()) co_return outcome;
  // Of several that notice a loss one reports it.
  what.lost = [once = std::make_shared<std::function<void(const error&)>>(std::move(what.lost))](
                  const error& why) {
    if (*once) std::exchange(*once, nullptr)(why);
  };
  std::shared_ptr<kernel_collectives> mine(new kernel_collectives(of, rank));
  // Pairs in one order on all ranks, so that none waits in a circle.
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    kernel_messages::made pair = co_await make_pair(over, peer, of, how, outcome.why_not, what);
    if (!pair.messages && outcome.why_not.empty()) {
      outcome.why_not = fmt::format("with rank {}: {}", peer, pair.why_not);
    }
    outcome.take_turns = outcome.take_turns || pair.take_turns;
    mine->messages_.push_back(std::move(pair.messages));
  }
  if (outcome.why_not.empty()) {
    try {
      const std::size_t bytes = std::max(scratch_bytes, detail::min_scratch_bytes(ranks));
      mine->memory_ = std::make_shared<memory>(of, bytes);
    } catch (const error& why) {
      outcome.why_not = why.what();
    }
  }
  std::uint8_t can = outcome.why_not.empty() ? 1 : 0;
  co_await all_reduce(over, mutable_view(&can, 1), data_type::uint8, reduce_op::minimum);
  if (can != 0) {
    const int next = (rank + 1) % ranks;
    mine->watch_ = std::make_unique<detail::peer_watch>(*over.internals(), next, what.lost);
    outcome.collectives = std::move(mine);
  } else if (outcome.why_not.empty()) {
    outcome.why_not = "another rank cannot";
  }
  co_return outcome;
}

kernel_collectives::kernel_collectives(accelerator& of, int rank) noexcept : of_(of), rank_(rank) {}

kernel_collectives::~kernel_collectives() {
  if (!memory_) return;
  // Also kernels that exchange: the module that they are of goes with the memory.
  const auto is_idle = [this] {
    return memory_->is_idle() &&
           std::ranges::all_of(messages_, [](const auto& each) { return each->is_idle(); });
  };
  if (!is_idle()) {
    for (const auto& each : messages_) each->abort();
  }
  if (detail::passes_soon(is_idle)) {
    detail::deferred_calls::of_process().destroy(std::move(memory_));
    return;
  }
  log(log_level::warning, "streams",
      of_.text() + ": a kernel of a collective is still busy a second after their end");
  detail::keep_for_ever(std::move(memory_));
}

bool kernel_collectives::is_relayed() const noexcept {
  return std::ranges::any_of(messages_, [](const auto& each) { return each->is_relayed(); });
}

bool kernel_collectives::takes(const call& what) const noexcept {
  const int ranks = static_cast<int>(messages_.size()) + 1;
  if (!detail::has_kernel_steps(what.what) || what.root < 0 || what.root >= ranks) return false;
  const bool is_root = rank_ == what.root;
  const auto own = static_cast<std::size_t>(rank_), n = static_cast<std::size_t>(ranks);
  if (reduces(what.what)) {
    const std::size_t element = bytes_of(what.type);
    if (element == 0 || !is_defined(what.type, what.how.op)) return false;
    if (what.how.op == reduce_op::premultiplied_sum &&
        !detail::is_factor(what.type, what.how.factor)) {
      return false;
    }
    if (!is_aligned(what.from, element) || !is_aligned(what.into, element)) return false;
  }
  switch (what.what) {
    case collective::broadcast:
      return true;
    case collective::reduce:
      if (!is_root) return true;
      [[fallthrough]];
    case collective::all_reduce:
      return what.from.bytes == what.into.bytes && are_apart(what.from, what.into, 0);
    case collective::all_gather:
      return what.into.bytes == n * what.from.bytes &&
             are_apart(what.from, what.into, own * what.from.bytes);
    default:
      return what.from.bytes == n * what.into.bytes &&
             are_apart(what.into, what.from, own * what.into.bytes);
  }
}

kernel_collectives::launched kernel_collectives::launch(const call& what, accelerator::stream on) {
  // Before the first kernel: to load others waits for those that run.
  if (reduces(what.what)) memory_->kernels()->prepare(what.type);
  const bool into_tells = what.what == collective::reduce_scatter ||
                          (what.what == collective::broadcast && rank_ != what.root);
  steps by(*this, what, on);
  const detail::kernel_collective made{.what = what.what,
                                       .rank = rank_,
                                       .ranks = static_cast<int>(messages_.size()) + 1,
                                       .root = what.root,
                                       .from = static_cast<const char*>(what.from.data),
                                       .into = static_cast<char*>(what.into.data),
                                       .bytes = into_tells ? what.into.bytes : what.from.bytes,
                                       .prepares = reduces(what.what) && by.prepares()};
  const bool uses_scratch = detail::uses_scratch(made);
  if (uses_scratch) memory_->use_on(on);
  queue_steps(made, memory_->scratch(), by);
  if (uses_scratch) memory_->was_used();
  return by.take_launched();
}

std::string kernel_collectives::describe(std::uint32_t call) {
  if (call == 0) return "a message";
  const auto what = static_cast<collective>(call >> 24 & 0x7f);
  std::string text(name(what));
  if (reduces(what)) {
    text += fmt::format(" of {}, {}", name(static_cast<data_type>(call >> 20 & 0xf)),
                        name(static_cast<reduce_op>(call >> 16 & 0xf)));
  }
  if (what == collective::broadcast || what == collective::reduce) {
    text += fmt::format(", root {}", call & 0xffff);
  }
  return text;
}

}  // namespace tandem
