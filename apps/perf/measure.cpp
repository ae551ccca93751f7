#include "perf/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <new>
#include <tandem/collectives.hpp>
#include <tandem/communicator.hpp>
#include <tandem/error.hpp>
#include <tandem/parallel.hpp>
#include <tandem/version.hpp>

#include "perf/exercise.hpp"
#include "perf/record.hpp"

namespace tandem::perf {

namespace {

// Epochs of the stages of a measurement: each uses different data.
constexpr std::uint64_t checked_before = 0, warm = 50, timed = 60, checked_after = 70;
constexpr double warmup_budget_us = 100e3, timed_budget_us = 500e3;
constexpr std::int64_t default_warmup = 20;

/// Runs iterations with all bytes checked. Returns their times.
asio::awaitable<std::vector<double>> run_checked(exercise& one, std::uint64_t first_epoch,
                                                 int count) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t epoch = first_epoch + static_cast<std::uint64_t>(i);
    one.prepare(epoch);
    co_await one.iterate(epoch, 1, samples);
    one.wrong += one.wrong_bytes(epoch, 0);
  }
  co_return samples;
}

/// Broadcasts rank 0's number: all ranks must run the same number of iterations.
asio::awaitable<std::int64_t> broadcast_value(communicator& all, std::int64_t own) {
  std::int64_t agreed = own;
  co_await broadcast(all, mutable_view(std::span(&agreed, 1)), 0);
  co_return agreed;
}

double median_of(const std::vector<double>& samples) {
  return summarize(samples, 0).p50;
}

std::int64_t choose_warmup(const perf_options& o, std::size_t index,
                           const std::vector<double>& samples) {
  if (o.warmup >= 0) {
    return o.iters.empty() ? o.warmup : std::min<std::int64_t>(o.warmup, o.iters[index]);
  }
  return std::min(default_warmup, iterations_for(median_of(samples), warmup_budget_us));
}

std::int64_t choose_iterations(const perf_options& o, std::size_t index,
                               const std::vector<double>& samples) {
  if (!o.iters.empty()) return o.iters[index];
  return iterations_for(median_of(samples), timed_budget_us);
}

std::vector<rail_stats> rails_of(const channel* peer) {
  return peer != nullptr ? peer->rails() : std::vector<rail_stats>();
}

/// Reduces over all ranks: the longest time of each iteration, the longest mean, and the sum of
/// wrong bytes.
asio::awaitable<times_us> merge(communicator& all, const perf_options& o,
                                std::vector<double> samples, std::uint64_t& wrong) {
  samples.push_back(mean_of(samples));
  if (!o.point_to_point()) {
    co_await all_reduce(all, mutable_view(samples), data_type::float64, reduce_op::maximum);
  }
  const double longest_mean_us = samples.back();
  samples.pop_back();
  std::int64_t sum = static_cast<std::int64_t>(wrong);
  co_await all_reduce(all, mutable_view(std::span(&sum, 1)), data_type::int64, reduce_op::sum);
  wrong = static_cast<std::uint64_t>(sum);
  co_return summarize(std::move(samples), longest_mean_us);
}

asio::awaitable<record> measure_size(communicator& all, const perf_options& o, exercise& one,
                                     std::size_t index, const channel* peer) {
  std::vector<double> samples = co_await run_checked(one, checked_before, 3);

  const std::int64_t warmup = co_await broadcast_value(all, choose_warmup(o, index, samples));
  if (warmup > 0) {
    samples.clear();
    one.prepare(warm);
    co_await one.iterate(warm, warmup, samples);
  }
  const std::int64_t iters = co_await broadcast_value(all, choose_iterations(o, index, samples));

  one.prepare(timed);
  samples.clear();
  samples.reserve(static_cast<std::size_t>(iters));
  co_await barrier(all);
  const std::vector<rail_stats> before = rails_of(peer);
  co_await one.iterate(timed, iters, samples);
  const std::vector<rail_stats> after = rails_of(peer);
  one.wrong += one.wrong_bytes(timed, iters - 1);

  const std::vector<double> ignored = co_await run_checked(one, checked_after, 2);

  record line;
  line.time_us = co_await merge(all, o, std::move(samples), one.wrong);
  line.op = o.op->name;
  if (o.how != algorithm::automatic) line.algorithm = name(o.how);
  if (o.op->reduces) {
    line.type = name(o.type);
    line.reduction = name(o.reduction);
  }
  line.channel = o.channel;
  line.islands = o.islands;
  if (o.memory != name(memory_kind::host)) line.memory = o.memory;
  line.ranks = all.size();
  line.bytes = bytes_moved(*o.op, o.bytes[index], all.size(), o.element_bytes());
  line.depth = o.depth;
  line.iters = iters;
  line.wrong_bytes = one.wrong;
  for (std::size_t i = 0; i < before.size(); ++i) {
    line.rail_bytes.emplace_back(after[i].name, after[i].bytes_arrived - before[i].bytes_arrived);
  }
  line.commit = commit();
  line.settings = changed_settings(o.engine);
  co_return line;
}

/// The channel between the first and the last rank; null on the ranks between them.
asio::awaitable<channel*> find_peer(fabric& job) {
  const int last = job.size() - 1;
  if (job.rank() != 0 && job.rank() != last) co_return nullptr;
  const std::reference_wrapper<channel> found = co_await job.to(job.rank() == 0 ? last : 0);
  co_return &found.get();
}

/// The channels that an exercise uses directly.
struct peers {
  channel* across = nullptr;  ///< between the first and the last rank; null on others
  channel *next = nullptr, *previous = nullptr;
};

asio::awaitable<peers> find_peers(fabric& job, const perf_options& o) {
  peers found;
  if (o.point_to_point()) found.across = co_await find_peer(job);
  if (o.op->who == rank_pattern::neighbours) {
    const int n = job.size();
    const std::reference_wrapper<channel> next = co_await job.to((job.rank() + 1) % n);
    const std::reference_wrapper<channel> previous = co_await job.to((job.rank() + n - 1) % n);
    found.next = &next.get();
    found.previous = &previous.get();
  }
  co_return found;
}

std::unique_ptr<exercise> make_exercise(communicator& all, const peers& found,
                                        const perf_options& o, std::size_t bytes,
                                        memory_location at) {
  try {
    if (o.point_to_point()) {
      if (found.across == nullptr) return make_idle();
      return make_point_to_point(*found.across, all.rank() == 0 ? 0 : 1, o, bytes, at);
    }
    const collective_params mine{
        all.rank(), all.size(),        bytes_moved(*o.op, bytes, all.size(), o.element_bytes()),
        o.type,     o.element_bytes(), o.reduction,
        o.source()};
    if (found.next != nullptr) return make_neighbours(*found.next, *found.previous, o, mine, at);
    return make_collective(all, o, mine, at);
  } catch (const std::bad_alloc&) {
    throw error(errc::bad_input,
                fmt::format("cannot allocate {} message(s) of {} bytes", o.depth, bytes),
                "choose smaller --bytes or --depth");
  }
}

}  // namespace

asio::awaitable<std::uint64_t> measure(fabric& job, const perf_options& o, memory_location at,
                                       report* out) {
  const const_view like = at.like();
  communicator all = co_await make_communicator(job, o.engine, like);
  const peers found = co_await find_peers(job, o);
  std::unique_ptr<communicator> with_islands;
  if (o.islands > 0) {
    const island_member mine(at.kind, at.device, all.rank() / o.island_ranks);
    with_islands = co_await make_island_communicator(all, mine);
  }
  communicator& measured = with_islands ? *with_islands : all;
  channel* const peer = found.across != nullptr ? found.across : found.next;
  if (out != nullptr) out->print_header(all.size());
  if (out != nullptr && with_islands) out->print_line(with_islands->backend().text);
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < o.bytes.size(); ++i) {
    const std::unique_ptr<exercise> one = make_exercise(measured, found, o, o.bytes[i], at);
    const record line = co_await measure_size(all, o, *one, i, peer);
    if (out != nullptr) out->add(line);
    wrong += line.wrong_bytes;
  }
  co_await barrier(all);
  if (out != nullptr && peer != nullptr) out->rails(peer->rails());
  co_return wrong;
}

}  // namespace tandem::perf
