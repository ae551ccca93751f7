#include <fmt/format.h>

#include <tandem/async.hpp>
#include <tandem/communicator.hpp>
#include <tandem/detail/board_sharing.hpp>
#include <tandem/launch.hpp>
#include <utility>

#include "communicator/agreement.hpp"
#include "communicator/group.hpp"
#include "communicator/probe.hpp"

namespace tandem {
namespace {

/// Removes and returns the first line.
std::string line_of(std::string& text) {
  const std::size_t end = text.find('\n');
  std::string line = text.substr(0, end);
  text.erase(0, end + 1);
  return line;
}

/// Host and memory of the ranks, which may differ: the first two lines of each text, removed from
/// it before the rest is compared.
struct rank_locations {
  explicit rank_locations(std::vector<std::string>& texts) {
    for (std::string& text : texts) {
      hosts.push_back(line_of(text));
      const bool is_device = line_of(text) != name(memory_kind::host);
      on_devices = on_devices || is_device;
    }
  }

  std::vector<std::string> hosts;
  bool on_devices = false;
};

/// The facts without the hosts, measured or from the profile; the same on every rank.
asio::awaitable<facts> collect_facts(communicator& all, const rank_locations& of,
                                     const settings& options, const_view like) {
  if (!options.profile.empty()) co_return facts::load(options.profile, options.meet_timeout);
  const detail::layout where(of.hosts);
  std::string mine = co_await detail::probe(all, where, like, of.on_devices);
  mine += fmt::format("cores {}\n", cores_for_loops());
  const std::vector<std::string> found = co_await detail::exchange_texts(all, std::move(mine));
  std::string together = fmt::format("memory {}\n", of.on_devices ? "device" : "host");
  for (const std::string& text : found) together += text;
  facts measured = facts::parse(together);
  measured.probed = true;
  co_return measured;
}

asio::awaitable<plan> agree(communicator& all, std::string_view channel, const settings& options,
                            const_view like) {
  std::string mine = fmt::format("{}\n{}\n{}", host_name(options), name(like.kind),
                                 detail::plan_settings(channel, options));
  std::vector<std::string> texts = co_await detail::exchange_texts(all, std::move(mine));
  rank_locations where(texts);
  if (const std::optional<detail::difference> found = detail::difference_of(texts)) {
    throw detail::disagreement(*found);
  }
  facts known = co_await collect_facts(all, where, options, like);
  known.host_of_rank = std::move(where.hosts);
  if (may_share_board(channel, known.host_of_rank)) {
    known.has_board = co_await detail::share_board(all);
  }
  plan result = plan::of(known, options);
  std::string text = result.text();
  co_await detail::compare_plans(all, std::move(text));
  co_return result;
}

/// The error that is reported to the other ranks when this one fails.
error reported_failure(int rank, std::exception_ptr failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const error& e) {
    return with_context(
        e, {.rank = rank, .rail = {}, .phase = "agreeing on a plan", .detail = {}, .advice = {}});
  } catch (...) {
    return error(errc::peer_lost, {.rank = rank,
                                   .peer = rank,
                                   .rail = {},
                                   .phase = "agreeing on a plan",
                                   .detail = describe(failure),
                                   .advice = {}});
  }
}

}  // namespace

asio::awaitable<communicator> make_communicator(fabric& over, settings options, const_view like) {
  std::exception_ptr failure;
  try {
    communicator all(over, options);
    plan agreed = co_await agree(all, over.kind(), options, like);
    all.internals()->adopt(std::move(agreed));
    co_return all;
  } catch (...) {
    failure = std::current_exception();
  }
  const error reason = reported_failure(over.rank(), failure);
  // All ranks detect a disagreement themselves; any other failure must be reported to them.
  if (reason.code() != errc::call_mismatch) over.fail(reason);
  std::rethrow_exception(failure);
}

}  // namespace tandem
