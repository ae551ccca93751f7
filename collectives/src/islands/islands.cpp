#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <tandem/collectives/collectives.hpp>
#include <tandem/collectives/islands.hpp>
#include <tandem/collectives/plan.hpp>
#include <tandem/device_watch.hpp>
#include <tandem/event.hpp>
#include <tandem/join.hpp>
#include <utility>

#include "group.hpp"
#include "islands/division.hpp"
#include "islands/loss_watch.hpp"
#include "islands/vendor_group.hpp"

namespace tandem {
namespace {

/// Below this a slice would spend more on its start than on its bytes.
constexpr std::size_t least_slice_bytes = std::size_t{8} << 20;
constexpr std::size_t most_slices = 8;

/// What a vendor's library has begun is over within this, unless a rank is missing.
constexpr std::chrono::seconds closed_patience{1};

/// Of a copy engine's or a kernel's work: each costs some 10 us beside its bytes, which at the rate
/// of a link between two devices are 4 MB.
constexpr std::size_t device_chunk_bytes = std::size_t{16} << 20;

/// The same plan with chunks that suit devices; every rank makes the same of the same.
plan with_long_chunks(const plan& agreed) {
  std::vector<plan_rule> rules(agreed.rules().begin(), agreed.rules().end());
  for (plan_rule& rule : rules) rule.chunk_bytes = std::max(rule.chunk_bytes, device_chunk_bytes);
  return plan(std::move(rules), agreed.known());
}

detail::island_fact fact_of(const accelerator& device, const island_member& mine, int library) {
  detail::island_fact fact;
  fact.kind = static_cast<std::int32_t>(mine.kind);
  fact.colour = mine.colour;
  fact.library = library;
  const std::string& uuid = device.facts().uuid;
  std::memcpy(fact.uuid.data(), uuid.data(), std::min(uuid.size(), fact.uuid.size()));
  return fact;
}

/// How far a level has come, in slices; the next level waits for it.
struct progress {
  explicit progress(const asio::any_io_executor& executor) : moved(executor) {}

  void step() {
    ++slices;
    moved.notify_all();
  }
  asio::awaitable<void> reach(std::size_t count) {
    while (slices < count) co_await moved.wait();
  }

  std::size_t slices = 0;
  event moved;
};

}  // namespace

struct islands::parts {
  parts(communicator& over, accelerator& of, std::vector<detail::island_fact> said)
      : all(over),
        device(of),
        ranks(said),
        watch(over.get_executor(), of),
        patience(over.get_executor()) {}

  int rank() const noexcept { return all.rank(); }
  int island() const noexcept { return ranks.island_of[static_cast<std::size_t>(rank())]; }
  int place() const noexcept { return ranks.place_of[static_cast<std::size_t>(rank())]; }
  const std::vector<int>& mine() const noexcept {
    return ranks.members[static_cast<std::size_t>(island())];
  }
  /// Inside its island this rank is not alone.
  bool has_inside() const noexcept { return mine().size() > 1; }

  /// Some island has an inside: the same on all ranks, as the number of slices has to be.
  bool has_levels() const noexcept { return all.size() > static_cast<int>(ranks.members.size()); }

  /// One all_reduce on its way through the levels.
  struct passage {
    passage(parts& over, mutable_view view, data_type what, reduction across_by, int vendor,
            int inside)
        : with(over),
          data(view),
          type(what),
          across(across_by),
          vendor_type(vendor),
          inside_op(inside),
          element_bytes(bytes_of(what)),
          count(view.bytes / element_bytes),
          slices(over.has_levels()
                     ? std::clamp<std::size_t>(view.bytes / least_slice_bytes, 1, most_slices)
                     : 1),
          combined(over.all.get_executor()),
          exchanged(over.all.get_executor()) {}

    detail::segment slice(std::size_t k) const noexcept {
      return detail::segment_of(count, static_cast<int>(slices), static_cast<int>(k));
    }
    std::byte* at(std::size_t element) const noexcept {
      return static_cast<std::byte*>(data.data) + element * element_bytes;
    }

    asio::awaitable<void> combine();
    asio::awaitable<void> exchange();
    asio::awaitable<void> spread();

    parts& with;
    mutable_view data;
    data_type type;
    reduction across;
    int vendor_type, inside_op;
    std::size_t element_bytes, count, slices;
    progress combined, exchanged;
  };

  asio::awaitable<void> through_levels(mutable_view data, data_type type, reduction across,
                                       int vendor_type, int inside_op);

  communicator& all;
  accelerator& device;
  detail::division ranks;
  device_watch watch;
  std::unique_ptr<communicator> inside, across;
  std::unique_ptr<detail::vendor_group> down, up;  // to the places, and from them
  std::unique_ptr<detail::loss_watch> losses;
  asio::steady_timer patience;

  asio::awaitable<void> done_with(const detail::vendor_group& which);
  void listen();
  void hear(const error& why);
  void give_up(const error& why);
};

/// All that is on its stream.
asio::awaitable<void> islands::parts::done_with(const detail::vendor_group& which) {
  co_await watch.reached(which.stream());
  which.check_alive();
}

/// Whoever waits in the library hears of no message.
void islands::parts::listen() {
  const detail::group& group = *inside->internals();
  const int next = (inside->rank() + 1) % inside->size();
  losses =
      std::make_unique<detail::loss_watch>(group, next, [this](const error& why) { hear(why); });
}

/// A rank that has closed in an orderly way had done its part, and what is on the streams ends
/// soon.
void islands::parts::hear(const error& why) {
  if (why.code() == errc::channel_closed) return;
  if (why.code() != errc::peer_closed) return give_up(why);
  patience.expires_after(closed_patience);
  patience.async_wait([this, why](const error_code& cancelled) {
    if (!cancelled) give_up(why);
  });
}

void islands::parts::give_up(const error& why) {
  down->give_up(why);
  up->give_up(why);
}

/// Each slice to the places of the island, combined.
asio::awaitable<void> islands::parts::passage::combine() {
  for (std::size_t k = 0; k < slices; ++k) {
    const detail::segment s = slice(k);
    if (with.down) {
      with.down->reduce_segments(at(s.first), s.count, element_bytes, with.ranks.places,
                                 vendor_type, inside_op);
      co_await with.done_with(*with.down);
    }
    combined.step();
  }
}

/// This place's part of each slice, with the same place of all other islands.
asio::awaitable<void> islands::parts::passage::exchange() {
  for (std::size_t k = 0; k < slices; ++k) {
    co_await combined.reach(k + 1);
    if (with.across) {
      const detail::segment s = slice(k);
      const detail::segment part = detail::segment_of(s.count, with.ranks.places, with.place());
      const mutable_view view(at(s.first + part.first), part.count * element_bytes, data.kind,
                              data.device);
      co_await tandem::all_reduce(*with.across, view, type, across);
    }
    exchanged.step();
  }
}

asio::awaitable<void> islands::parts::passage::spread() {
  if (!with.up) co_return;
  for (std::size_t k = 0; k < slices; ++k) {
    co_await exchanged.reach(k + 1);
    const detail::segment s = slice(k);
    with.up->spread_segments(at(s.first), s.count, element_bytes, with.ranks.places, vendor_type);
  }
  co_await with.done_with(*with.up);
}

asio::awaitable<void> islands::parts::through_levels(mutable_view data, data_type type,
                                                     reduction across_by, int vendor_type,
                                                     int inside_op) {
  passage one(*this, data, type, across_by, vendor_type, inside_op);
  std::vector<asio::awaitable<void>> levels;
  levels.push_back(one.combine());
  levels.push_back(one.exchange());
  levels.push_back(one.spread());
  co_await when_all(std::move(levels));
}

islands::islands(std::unique_ptr<parts> made) : parts_(std::move(made)) {}
islands::~islands() = default;

asio::awaitable<std::unique_ptr<islands>> islands::make(communicator& all, island_member mine) {
  accelerator& device = accelerator_at(mine.kind, mine.device);
  std::string why;
  const detail::nccl* const library = detail::find_nccl(mine.kind, why);
  int version = 0;
  if (library != nullptr) library->version(&version);

  detail::island_fact own = fact_of(device, mine, version);
  std::vector<detail::island_fact> said(static_cast<std::size_t>(all.size()));
  const const_view own_bytes(&own, sizeof own);
  const mutable_view said_bytes(said.data(), said.size() * sizeof own);
  co_await all_gather(all, own_bytes, said_bytes);

  auto made = std::make_unique<parts>(all, device, std::move(said));
  const bool exchanges = made->place() < made->ranks.places;
  made->inside = co_await all.split(made->island());
  made->across = co_await all.split(exchanges ? made->place() : -1);
  if (made->ranks.members.size() < 2) made->across.reset();
  if (made->across) {
    made->across->internals()->adopt(with_long_chunks(made->across->agreed()));
  }
  if (made->ranks.is_native() && made->has_inside()) {
    made->down = co_await detail::vendor_group::make(*made->inside, device, *library);
    made->up = co_await detail::vendor_group::make(*made->inside, device, *library);
    const int next = (made->inside->rank() + 1) % made->inside->size();
    co_await made->inside->internals()->connect(next);
    made->listen();
  }
  co_return std::unique_ptr<islands>(new islands(std::move(made)));
}

int islands::count() const noexcept {
  return static_cast<int>(parts_->ranks.members.size());
}
int islands::island() const noexcept {
  return parts_->island();
}
const std::vector<std::vector<int>>& islands::members() const noexcept {
  return parts_->ranks.members;
}
const std::string& islands::text() const noexcept {
  return parts_->ranks.text;
}

/// By what all ranks know, so that all take the same way.
asio::awaitable<void> islands::all_reduce(mutable_view data, data_type type, reduction what) {
  parts& p = *parts_;
  const std::optional<int> vendor = detail::vendor_type(type, p.ranks.oldest_library);
  const std::optional<int> op = detail::vendor_op(what.op);
  const bool is_sum_of_products = what.op == reduce_op::premultiplied_sum;
  const bool is_alone = p.all.size() == 1;
  if (is_alone || !p.ranks.is_native() || !vendor || (!op && !is_sum_of_products)) {
    co_await tandem::all_reduce(p.all, data, type, what);
    co_return;
  }
  if (op) {
    co_await p.through_levels(data, type, what, *vendor, *op);
    co_return;
  }
  // Whoever is alone in its island multiplies on the way across.
  const reduction across = premultiplied_sum(p.has_inside() ? 1 : what.factor);
  int inside = 0;
  if (p.down) inside = p.down->make_factor(what.factor, type, *vendor);
  std::exception_ptr failure;
  try {
    co_await p.through_levels(data, type, across, *vendor, inside);
  } catch (...) {
    failure = std::current_exception();
  }
  if (p.down) p.down->free_op(inside);
  if (failure) std::rethrow_exception(failure);
}

asio::awaitable<void> islands::broadcast(mutable_view data, int root) {
  parts& p = *parts_;
  if (root < 0 || root >= p.all.size()) {
    throw error(errc::bad_input,
                fmt::format("broadcast: root {} is not in a group of {}", root, p.all.size()));
  }
  if (!p.ranks.is_native()) {
    co_await tandem::broadcast(p.all, data, root);
    co_return;
  }
  const auto at_root = static_cast<std::size_t>(root);
  const int places = p.ranks.places;
  const auto bytes = static_cast<std::byte*>(data.data);
  if (p.down && p.island() == p.ranks.island_of[at_root]) {
    p.down->deal_segments(bytes, data.bytes, 1, places, detail::nc::uint8,
                          p.ranks.place_of[at_root]);
    co_await p.done_with(*p.down);
  }
  if (p.across) {
    const detail::segment s = detail::segment_of(data.bytes, places, p.place());
    const mutable_view part = data.part(s.first, s.count);
    co_await tandem::broadcast(*p.across, part, p.ranks.island_of[at_root]);
  }
  if (p.up) {
    p.up->spread_segments(bytes, data.bytes, 1, places, detail::nc::uint8);
    co_await p.done_with(*p.up);
  }
}

asio::awaitable<void> islands::weighted_mean(mutable_view data, data_type type, double weight) {
  if (!std::isfinite(weight) || weight < 0) {
    throw error(errc::bad_input, fmt::format("weighted_mean: a weight of {}", weight),
                "give what the rank's data stand for, a number of samples, say");
  }
  if (is_defined(type, reduce_op::bxor)) {
    throw error(errc::bad_input, fmt::format("weighted_mean: of {}", name(type)),
                "weights are no whole numbers: use a floating-point type");
  }
  double total = weight;
  const mutable_view sum(&total, sizeof total);
  co_await tandem::all_reduce(parts_->all, sum, data_type::float64, reduce_op::sum);
  if (!(total > 0)) {
    throw error(errc::bad_input, fmt::format("weighted_mean: the weights add up to {}", total),
                "at least one rank must bring something");
  }
  const reduction share = premultiplied_sum(weight / total);
  co_await all_reduce(data, type, share);
}

}  // namespace tandem
