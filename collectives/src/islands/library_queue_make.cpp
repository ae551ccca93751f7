// How a library_queue is made, and how it ends.
#include <algorithm>
#include <array>
#include <tandem/collectives.hpp>
#include <tandem/library_queue.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "communicator/group.hpp"
#include "islands/library_watch.hpp"
#include "islands/parts.hpp"
#include "islands/peer_watch.hpp"
#include "islands/vendor_group.hpp"

namespace tandem {
namespace {

using detail::island_fact;
namespace nc = detail::nc;

/// What a rank tells the others, as plain bytes: itself, and ids for communicators of the library
/// if it makes them.
template <std::size_t Ids>
struct offer {
  island_fact fact;
  std::array<nc::unique_id, Ids> ids{};
};

template <std::size_t Ids>
offer<Ids> make_offer(const island_member& mine, const detail::nccl* library, bool makes_ids) {
  static_assert(std::is_trivially_copyable_v<offer<Ids>>);
  offer<Ids> own{detail::own_fact(mine)};
  if (!makes_ids || library == nullptr) return own;
  for (nc::unique_id& id : own.ids) {
    // A rank without an id is one without the library.
    if (library->get_unique_id(&id) != nc::success) own.fact.library = 0;
  }
  return own;
}

const detail::nccl* library_of(const island_member& mine) {
  std::string why;
  return detail::find_nccl(mine.kind, why);
}

/// Why the ranks cannot use the library; empty: they can.
std::string reason_against(const detail::division& ranks) {
  if (ranks.members.size() > 1) return ranks.text;
  return ranks.fallback_reason.front();
}

}  // namespace

library_queue::library_queue(const communicator& over, accelerator& device,
                             const detail::nccl& library, int version, int rank, int size)
    : over_(over.internals()),
      version_(version),
      device_(device),
      by_(std::make_unique<detail::vendor_group>(device, library, rank, size)) {}

library_queue::~library_queue() {
  if (calls_) calls_->stop();
}

/// Before it is started there is nobody else to abort it.
void library_queue::watch(int peer, std::span<const int> neighbours, std::uint32_t flow,
                          const std::array<char, 128>& id, failure_handler what) {
  on_failure_ = std::move(what);
  watched_ = peer;
  const std::uint64_t queue = std::hash<std::string_view>()({id.data(), id.size()});
  calls_ = std::make_shared<detail::library_watch>(over_, neighbours, queue, flow,
                                                   [this](const error& why) { on_failure_(why); });
  watch_ = std::make_unique<detail::peer_watch>(*over_, peer, [this](const error& why) {
    if (is_started_) return on_failure_(why);
    abort(why);
  });
}

/// A failure on one rank ends the others' initialisation, too.
asio::awaitable<void> library_queue::start(const std::array<char, 128>& id, direction of) {
  std::function<nc::result(nc::comm)> first;
  if (of != direction::none) {
    byte_ = buffer(1, device_.kind(), device_.device());
    first = by_->first_message(byte_.data(), of == direction::sends);
  }
  try {
    const asio::any_io_executor executor = over_->executor();
    const std::chrono::milliseconds limit = over_->options().operation_timeout;
    co_await by_->start(executor, nc::unique_id{id}, limit, std::move(first));
  } catch (const error& why) {
    over_->fail(why);
    throw;
  }
  is_started_ = true;
  calls_->start();
}

asio::awaitable<library_queue::made> library_queue::make(communicator& over, island_member mine,
                                                         failure_handler what) {
  accelerator& device = accelerator_at(mine.kind, mine.device);
  const detail::nccl* const library = library_of(mine);
  const offer<1> own = make_offer<1>(mine, library, over.rank() == 0);
  std::vector<offer<1>> all(static_cast<std::size_t>(over.size()));
  const const_view own_bytes(&own, sizeof own);
  const mutable_view all_bytes(all.data(), all.size() * sizeof own);
  co_await tandem::all_gather(over, own_bytes, all_bytes);

  std::vector<island_fact> facts;
  for (const offer<1>& each : all) facts.push_back(each.fact);
  const detail::division ranks(facts);
  made result;
  result.text = reason_against(ranks);
  result.has_levels =
      ranks.members.size() > 1 && ranks.members.size() < all.size() && ranks.can_use_libraries();
  if (!result.text.empty()) co_return result;
  result.text = detail::library_text(own.fact.kind, own.fact.library);
  std::unique_ptr<library_queue> queue(new library_queue(
      over, device, *library, ranks.min_library_version, over.rank(), over.size()));
  const int next = (over.rank() + 1) % over.size();
  co_await over.internals()->connect(next);
  const std::array<char, 128>& id = all.front().ids.front().bytes;
  const flow_id flow = queue->over_->flow(detail::group::watch_tag::library);
  const std::array<int, 2> neighbours{next, (over.rank() + over.size() - 1) % over.size()};
  queue->watch(next, neighbours, flow, id, std::move(what));
  co_await queue->start(id, direction::none);
  result.queue = std::move(queue);
  co_return result;
}

asio::awaitable<library_queue::made_pair> library_queue::make_pair(communicator& over, int peer,
                                                                   island_member mine,
                                                                   std::uint16_t tag,
                                                                   failure_handler what) {
  accelerator& device = accelerator_at(mine.kind, mine.device);
  const detail::nccl* const library = library_of(mine);
  const bool is_first = over.rank() < peer;
  // [0]: for messages of the lower rank.
  offer<2> own = make_offer<2>(mine, library, is_first), other;
  const const_view sent(&own, sizeof own);
  const mutable_view received(&other, sizeof other);
  co_await over.sendrecv(peer, sent, peer, received, tag);

  const offer<2>& first = is_first ? own : other;
  const offer<2>& second = is_first ? other : own;
  const std::vector<island_fact> facts{first.fact, second.fact};
  const std::array<int, 2> numbers{std::min(over.rank(), peer), std::max(over.rank(), peer)};
  const detail::division ranks(facts, numbers);
  made_pair result;
  result.text = reason_against(ranks);
  if (!result.text.empty()) co_return result;
  result.text = detail::library_text(own.fact.kind, own.fact.library);
  std::array<std::unique_ptr<library_queue>, 2> queues;
  for (std::size_t i = 0; i < 2; ++i) {
    queues[i].reset(
        new library_queue(over, device, *library, ranks.min_library_version, is_first ? 0 : 1, 2));
    const flow_id flow = queues[i]->over_->flow(i == 0 ? detail::group::watch_tag::library_lower
                                                       : detail::group::watch_tag::library_higher);
    queues[i]->watch(peer, {&peer, 1}, flow, first.ids[i].bytes, what);
    co_await queues[i]->start(first.ids[i].bytes,
                              is_first == (i == 0) ? direction::sends : direction::receives);
  }
  result.sends = std::move(queues[is_first ? 0 : 1]);
  result.receives = std::move(queues[is_first ? 1 : 0]);
  co_return result;
}

void library_queue::abort(const error& why) {
  calls_->stop();
  by_->abort_group(why);
}

void library_queue::note(collective what, std::size_t bytes, int root) {
  calls_->calls().add({what, detail::by_islands, bytes, root});
}

void library_queue::note(collective what, std::size_t bytes, data_type type, reduce_op op,
                         int root) {
  calls_->calls().add({what, detail::by_islands, bytes, type, op, root});
}

void library_queue::note_by_channels(collective what) {
  calls_->calls().add({what, detail::by_channels, 0});
}

void library_queue::note_send(int to, std::size_t bytes) {
  calls_->calls().add_send(to, bytes);
}

void library_queue::note_receive(int from, std::size_t bytes) {
  calls_->calls().add_receive(from, bytes);
}

void library_queue::set_time_limit(std::chrono::milliseconds limit) noexcept {
  calls_->set_time_limit(limit);
}

std::string library_queue::missing_text() const {
  return calls_->calls().missing_text();
}

void* library_queue::native() const noexcept {
  return by_->native();
}

void* library_queue::release() noexcept {
  calls_->stop();
  return by_->release();
}

accelerator::stream library_queue::stream() const noexcept {
  return by_->stream();
}

void library_queue::use(std::optional<accelerator::stream> other) noexcept {
  by_->use(other);
}

}  // namespace tandem
