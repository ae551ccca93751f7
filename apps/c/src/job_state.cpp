#include "job_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <tandem/channels.hpp>
#include <tandem/detail/number_text.hpp>
#include <utility>

namespace tandem::c {
namespace {

constexpr std::chrono::seconds store_timeout{60};
/// After the kind of memory of a rank that does not use its vendor's library.
constexpr std::string_view no_library = ", no library";
/// Behind that, and followed by the settings stream-staging-bytes, stream-kernel-bytes and
/// stream-relay-bytes.
constexpr std::string_view before_staged_bytes = "; staged ";
constexpr std::string_view before_kernel_bytes = "; kernels ";
constexpr std::string_view before_relay_bytes = "; relayed ";

/// Removes the last setting from the text.
std::size_t take_bytes(std::string& kind, std::string_view before) {
  const std::size_t at = kind.find(before);
  if (at == std::string::npos) return 0;
  std::size_t bytes = 0;
  detail::read_number(std::string_view(kind).substr(at + before.size()), bytes);
  kind.resize(at);
  return bytes;
}

std::vector<std::string> keys_of_ranks(std::string_view prefix, std::size_t count) {
  std::vector<std::string> keys;
  for (std::size_t r = 0; r < count; ++r) keys.push_back(fmt::format("{}/{}", prefix, r));
  return keys;
}

/// Exchanges a short text of each rank of a group, through the store.
asio::awaitable<std::vector<std::string>> exchange(std::shared_ptr<store> through, std::string name,
                                                   int rank, std::size_t size, std::string mine,
                                                   std::chrono::milliseconds limit) {
  std::string key = fmt::format("{}/{}", name, rank);
  co_await through->set(std::move(key), std::move(mine));
  std::vector<std::string> keys = keys_of_ranks(name, size);
  std::vector<std::string> texts = co_await through->get(std::move(keys), limit);
  co_return texts;
}

/// Waits for a coroutine that returns nothing.
asio::awaitable<bool> done(asio::awaitable<void> work) {
  co_await std::move(work);
  co_return true;
}

/// The highest group id that no member uses: each text is a rank's ids, one character for each.
std::uint16_t highest_free(const std::vector<std::string>& used) {
  for (std::size_t id = fabric::group_ids().size() - 1; id > 0; --id) {
    const bool is_free = std::ranges::all_of(used, [id](const std::string& of) {
      return id < of.size() && of[of.size() - 1 - id] == '0';
    });
    if (is_free) return static_cast<std::uint16_t>(id);
  }
  throw error(errc::limit_exceeded, "all 4095 ids of groups are taken",
              "destroy communicators that are no longer needed");
}

}  // namespace

std::exception_ptr cancelled(std::string why) {
  return std::make_exception_ptr(
      error(asio::error::operation_aborted,
            {.rail = {}, .phase = {}, .detail = std::move(why), .advice = {}}));
}

asio::awaitable<void> job_state::join(std::shared_ptr<job_state> self, join_request how) {
  self->who_ = how.who;
  self->operation_timeout_ = how.options.operation_timeout;
  self->island_ = static_cast<int>(how.options.island);
  self->streams_wait_ = how.options.stream_waits;
  self->store_ = co_await store::meet(how.who, how.options);
  self->fabric_ = co_await mixed::make_fabric(self->store_, how.options);
  // All ranks wrap the fabric, or none does.
  std::string kind(name(how.kind));
  if (!how.options.vendor_library) kind += no_library;
  kind += fmt::format("{}{}{}{}{}{}", before_staged_bytes, how.options.stream_staging_bytes,
                      before_kernel_bytes, how.options.stream_kernel_bytes, before_relay_bytes,
                      how.options.stream_relay_bytes);
  self->kinds_ = co_await exchange(self->store_, "c/kind", how.who.rank,
                                   static_cast<std::size_t>(how.who.size), std::move(kind),
                                   how.options.meet_timeout);
  stream_limits& limits = self->stream_limits_;
  limits = {how.options.stream_staging_bytes, how.options.stream_kernel_bytes,
            how.options.stream_relay_bytes};
  for (std::string& each : self->kinds_) {
    limits.relay_bytes = std::min(limits.relay_bytes, take_bytes(each, before_relay_bytes));
    limits.kernel_bytes = std::min(limits.kernel_bytes, take_bytes(each, before_kernel_bytes));
    limits.staged_bytes = std::min(limits.staged_bytes, take_bytes(each, before_staged_bytes));
  }
  if (std::ranges::any_of(self->kinds_, [](const std::string& k) {
        return !k.starts_with(name(memory_kind::host));
      })) {
    self->fabric_ = devices::make_fabric(std::move(self->fabric_), how.options);
  }
  const const_view like(nullptr, 0, how.kind, how.device);
  communicator all = co_await make_communicator(*self->fabric_, how.options, like);
  self->world_ = self->add(std::make_unique<communicator>(std::move(all)));
}

std::shared_ptr<device_side> job_state::side_of(memory_kind kind, int device) {
  accelerator& on = accelerator_at(kind, device);
  const std::lock_guard lock(sides_mutex_);
  std::shared_ptr<device_side>& found = sides_[{kind, device}];
  if (!found)
    loop_.run_now([&] { found = std::make_shared<device_side>(loop_, on, streams_wait_); });
  return found;
}

std::shared_ptr<group_of_ranks> job_state::add(std::unique_ptr<communicator> ranks) {
  const auto kind_at = [&](int rank) -> const std::string& {
    return kinds_[static_cast<std::size_t>(ranks->job_rank(rank))];
  };
  auto order = stream_order::by_library;
  for (int r = 0; r < ranks->size(); ++r) {
    if (kind_at(r).starts_with(name(memory_kind::host))) order = stream_order::none;
    if (kind_at(r).ends_with(no_library)) order = std::min(order, stream_order::messages);
  }
  auto made = std::make_shared<group_of_ranks>(shared_from_this(), std::move(ranks), order);
  std::erase_if(groups_, [](const auto& each) { return each.expired(); });
  groups_.push_back(made);
  return made;
}

asio::awaitable<std::shared_ptr<group_of_ranks>> job_state::create_group(
    std::shared_ptr<group_of_ranks> parent, std::vector<int> members, std::string name) {
  const std::shared_ptr<job_state> self = parent->job();
  const auto mine = std::ranges::find(members, parent->rank());
  if (mine == members.end()) {
    throw error(errc::bad_input,
                fmt::format("create_group: this rank, {}, is not a member", parent->rank()));
  }
  const std::string key = fmt::format("c/group/{}/{}", name, self->groups_by_name_[name]++);
  std::string used = self->fabric_->groups()->to_string();
  const std::vector<std::string> all_used =
      co_await exchange(self->store_, key, static_cast<int>(mine - members.begin()), members.size(),
                        std::move(used), store_timeout);
  const std::uint16_t id = highest_free(all_used);
  std::unique_ptr<communicator> ranks =
      co_await parent->ranks().create_group(std::move(members), id);
  co_return self->add(std::move(ranks));
}

asio::awaitable<std::shared_ptr<group_of_ranks>> job_state::split(
    std::shared_ptr<group_of_ranks> parent, int colour, int key) {
  std::unique_ptr<communicator> ranks = co_await parent->ranks().split(colour, key);
  std::shared_ptr<group_of_ranks> part;
  if (ranks) part = parent->job()->add(std::move(ranks));
  co_return part;
}

void job_state::finish_queued() {
  std::vector<std::shared_ptr<group_of_ranks>> all;
  loop_.run_now([&] {
    for (const auto& each : groups_) {
      if (auto group = each.lock(); group && group->library() != nullptr) all.push_back(group);
    }
  });
  for (const auto& group : all) group->library()->finish_queued();
  loop_.run_now([&] { all.clear(); });
}

void job_state::leave() {
  // First, so that what is cancelled then is no failure to report to the other ranks.
  if (fabric_) fabric_->close();
  if (store_) store_->leave();
  const std::exception_ptr why = cancelled("this rank has left the job");
  for (const auto& each : groups_) {
    if (const std::shared_ptr<group_of_ranks> group = each.lock()) group->end(why);
  }
  world_.reset();
}

void job_state::abort(const std::string& reason) {
  const error why(errc::peer_lost,
                  {.rank = rank(),
                   .peer = rank(),
                   .rail = {},
                   .phase = {},
                   .detail = fmt::format("rank {} has aborted: {}", rank(), reason),
                   .advice = {}});
  fail(why);
}

std::unique_ptr<tandem_job> make_job(join_request how) {
  progress& loop = progress::of_process(spin_policy_for(how.who.local_size, how.options.spin));
  auto state = std::make_shared<job_state>(loop);
  try {
    run_on(loop, done(job_state::join(state, std::move(how))));
  } catch (...) {
    loop.run_now([&] {
      state->leave();
      state.reset();
    });
    throw;
  }
  return std::make_unique<tandem_job>(state, tandem_comm{state->world()});
}

}  // namespace tandem::c
