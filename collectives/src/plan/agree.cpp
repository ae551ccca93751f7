#include <fmt/format.h>

#include <tandem/collectives/agree.hpp>
#include <tandem/host.hpp>
#include <tandem/run.hpp>
#include <utility>

#include "group.hpp"
#include "plan/agreement.hpp"
#include "plan/probe.hpp"

namespace tandem {
namespace {

/// The texts of all ranks: the host in the first line of each, then what must be the same.
std::vector<std::string> hosts_in(std::vector<std::string>& texts) {
  std::vector<std::string> hosts;
  for (std::string& text : texts) {
    const std::size_t end = text.find('\n');
    hosts.push_back(text.substr(0, end));
    text.erase(0, end + 1);
  }
  return hosts;
}

/// All but the hosts, measured or from the file, the same on every rank.
asio::awaitable<facts> rates(communicator& all, const std::vector<std::string>& hosts,
                             const settings& options) {
  if (!options.profile.empty()) co_return facts::load(options.profile);
  const detail::layout where(hosts);
  std::string mine = co_await detail::probe(all, where);
  mine += fmt::format("cores {}\n", cores_for_loops());
  const std::vector<std::string> found = co_await detail::exchange_texts(all, std::move(mine));
  std::string together;
  for (const std::string& text : found) together += text;
  co_return facts::parse(together);
}

asio::awaitable<plan> agree(communicator& all, std::string_view channel, const settings& options) {
  std::string mine = host_name(options) + '\n' + detail::plan_settings(channel, options);
  std::vector<std::string> texts = co_await detail::exchange_texts(all, std::move(mine));
  std::vector<std::string> hosts = hosts_in(texts);
  if (const std::optional<detail::difference> found = detail::difference_of(texts)) {
    throw detail::disagreement(*found);
  }
  facts known = co_await rates(all, hosts, options);
  known.host_of_rank = std::move(hosts);
  plan result = plan::of(known, options);
  co_await detail::compare_plans(all, result);
  co_return result;
}

/// What the other ranks hear when this one cannot go on.
error told(int rank, std::exception_ptr failure) {
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

asio::awaitable<communicator> make_communicator(fabric& over, settings options) {
  std::exception_ptr failure;
  try {
    communicator all(over, options);
    plan agreed = co_await agree(all, over.kind(), options);
    all.internals()->adopt(std::move(agreed));
    co_return all;
  } catch (...) {
    failure = std::current_exception();
  }
  const error reason = told(over.rank(), failure);
  // All ranks have found a disagreement by themselves; of all else the others have to hear.
  if (reason.code() != errc::call_mismatch) over.fail(reason);
  std::rethrow_exception(failure);
}

}  // namespace tandem
