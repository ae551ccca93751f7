#include "comm_rank.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <tandem/log.hpp>
#include <utility>

#include "exchange.hpp"
#include "own_ids.hpp"
#include "status.hpp"

namespace tandem::nccl_abi {
namespace {

/// How long an abort waits for a call of the library that another thread makes. It may never end if
/// the device is full of work that waits for a lost rank: then it is aborted beneath the call.
constexpr std::chrono::seconds call_grace{2};
/// By a call, of what was started before: thousands of operations become known to be complete at
/// once.
constexpr int most_dropped = 8;

/// Ranks on this host, for how long loops poll: what a launcher says, if it started this job.
void add_local_size(launch_info& to) {
  try {
    const std::optional<launch_info> found = find_launch();
    if (!found || found->size != to.size) return;
    to.local_rank = found->local_rank;
    to.local_size = found->local_size;
    to.local_size_known = found->local_size_known;
  } catch (const error&) {  // variables of a launcher that are not for us
  }
}

template <class T>
asio::awaitable<bool> assign(T& into, asio::awaitable<T> made) {
  into = co_await std::move(made);
  co_return true;
}

}  // namespace

comm_rank::comm_rank(planner plan, memory_kind kind, int device)
    : handle_(comm_table::of_process().make_handle()),
      plan_(std::move(plan)),
      kind_(kind),
      device_(device) {
  if (kind_ != memory_kind::host) library_ = &vendor_library_of(kind_);
}

comm_rank::~comm_rank() {
  handle_.is_open = false;
  { const std::lock_guard calls_have_ended(handle_.mutex); }
  if (joining_.joinable()) joining_.join();
  take_next_ids();
  for (tandem_op* const each : started_) tandem_op_release(each);
  if (ranks_) {
    c::progress& loop = ranks_->loop();
    loop.run_now([&] {
      queue_.reset();
      watch_.reset();
    });
    if (aborting_.joinable()) aborting_.join();
    loop.run_now([&] { ranks_.reset(); });
  }
}

std::unique_ptr<tandem_job, comm_rank::job_deleter> comm_rank::make_job() const {
  c::join_request request;
  request.who.rank = how_.rank;
  request.who.size = how_.size;
  request.who.address = how_.at.address.to_string();
  request.who.port = how_.at.port;
  request.who.job = how_.at.job_text();
  request.who.launcher = "the unique id";
  request.who.serves_store = how_.serves;
  add_local_size(request.who);
  request.options = settings::from_environment();
  if (request.options.secret_file.empty() && request.options.certificate_file.empty())
    request.options.job_secret = secret(how_.at.key_text());
  request.kind = kind_;
  request.device = device_;
  return std::unique_ptr<tandem_job, job_deleter>(c::make_job(std::move(request)).release());
}

bool comm_rank::join() {
  try {
    const std::optional<join_plan> plan = plan_();
    if (!plan) return false;
    how_ = *plan;
    job_ = make_job();
    ranks_ = tandem_job_world(job_.get())->state;
    // All ranks, or none: each has reported to the others whether it uses its vendor's library.
    if (ranks_->library() != nullptr && ranks_->library()->may_use_library()) make_queue();
    if (how_.size > 1) make_next_ids();
    state_ = success;
    if (queue_) open_handle();
    if (!queue_ && how_.size > 1) watch_job();
    return true;
  } catch (...) {
    state_ = report(std::current_exception(), this);
    throw;
  }
}

void comm_rank::start_to_join() {
  joining_ = c::start_thread("tandem-join", [this] {
    try {
      join();
    } catch (...) {  // `state` has it
    }
  });
}

void comm_rank::open_handle() {
  const std::lock_guard lock(handle_.mutex);
  handle_.size = size();
  handle_.library = library_->base;
  handle_.native = native();
  handle_.queue = queue_.get();
  handle_.by = this;
  handle_.is_open = true;
}

void comm_rank::make_queue() {
  const island_member mine(kind_, device_, ranks_->job()->island());
  library_queue::made made;
  c::run_on(ranks_->loop(), assign(made, library_queue::make(ranks_->ranks(), mine,
                                                             [this](const error& e) { lost(e); })));
  log(log_level::info, "nccl",
      fmt::format("{}: {}", ranks_->ranks_text(),
                  made.queue ? "one island, by " + made.text
                             : "channels" + (made.text.empty() ? "" : ": " + made.text)));
  queue_ = std::move(made.queue);
  // The library itself has none, and programs are used to that.
  if (queue_ && std::getenv("TANDEM_OPERATION_TIMEOUT_S") != nullptr)
    queue_->set_time_limit(ranks_->job()->operation_timeout());
}

/// Exchanged while all ranks are there, as those that are left could not agree on a place to meet.
void comm_rank::make_next_ids() {
  unique_id mine{};
  try {
    mine = own_ids::of_process().make(settings::from_environment());
  } catch (const error& why) {
    log(log_level::info, "nccl",
        fmt::format("rank {} cannot serve a meeting after a failure: {}", rank(), why.what()));
  }
  next_ids_ = exchange(channels(), mine);
}

std::vector<unique_id> comm_rank::take_next_ids() {
  const std::lock_guard lock(mutex_);
  if (!next_ids_.empty())
    own_ids::of_process().release(next_ids_[static_cast<std::size_t>(rank())]);
  return std::exchange(next_ids_, {});
}

/// For a rank that makes no call, and asks for `state` only.
void comm_rank::watch_job() {
  const auto failed = [this](const error& why) {
    const std::lock_guard lock(mutex_);
    result expected = success;
    if (state_.compare_exchange_strong(expected, remote_error)) last_error_ = why.what();
  };
  c::run_on(ranks_->loop(), assign(watch_, detail::job_watch::make(ranks_->ranks(), failed)));
}

/// On the loop. The abort waits for the caller's own call, which may need the loop.
void comm_rank::lost(const error& why) {
  if (aborting_.joinable()) return;
  set_last_error(why.what());
  state_ = remote_error;
  handle_.is_open = false;
  aborting_ = c::start_thread("tandem-abort", [this, why] {
    const std::unique_lock lock(handle_.mutex, call_grace);
    ranks_->loop().run_now([&] {
      if (queue_) queue_->abort(why);
    });
  });
}

result comm_rank::state() {
  if (state_ == success) drop_complete(std::numeric_limits<int>::max());
  return state_;
}

std::string comm_rank::last_error() {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

void comm_rank::set_last_error(std::string text) {
  const std::lock_guard lock(mutex_);
  last_error_ = std::move(text);
}

void comm_rank::require_ready() {
  if (!is_one_island() && state_ == success) drop_complete(most_dropped);
  const result now = state_;
  if (now == success) return;
  if (now == in_progress) {
    refuse(invalid_usage,
           "the communicator is not ready yet: ncclCommGetAsyncError returns ncclInProgress until "
           "all ranks have joined");
  }
  refuse(now, last_error());
}

detail::nc::comm comm_rank::native() const {
  const auto native = static_cast<detail::nc::comm>(queue_->native());
  if (native != nullptr) return native;
  const std::lock_guard lock(mutex_);
  throw failure(remote_error, last_error_);
}

int comm_rank::add(made_sum sum) {
  const std::lock_guard lock(mutex_);
  sums_.emplace(next_sum_, std::make_shared<made_sum>(sum));
  return next_sum_++;
}

void comm_rank::remove_sum(int op) {
  const std::lock_guard lock(mutex_);
  if (sums_.erase(op) == 0)
    refuse(invalid_argument, fmt::format("{} is no operation that was made here", op));
}

std::shared_ptr<const made_sum> comm_rank::find_sum(int op) const {
  const std::lock_guard lock(mutex_);
  const auto found = sums_.find(op);
  if (found != sums_.end()) return found->second;
  throw failure(invalid_argument, fmt::format("{} is no reduction of this communicator", op));
}

void* comm_rank::copy_for(stream on, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::vector<buffer>& all = copies_[on];
  if (all.empty() || all.back().size() < bytes) all.emplace_back(bytes, kind_, device_);
  return all.back().data();
}

void comm_rank::keep(tandem_op* started) {
  const std::lock_guard lock(mutex_);
  started_.push_back(started);
}

/// The first failure of an operation ends the communicator: later ones could not be matched.
void comm_rank::drop_complete(int most) {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < most && !started_.empty() && started_.front()->state->is_done(); ++i) {
    drop_first();
    started_.pop_front();
  }
}

void comm_rank::drop_first() {
  const std::unique_ptr<tandem_op, void (*)(tandem_op*)> first(started_.front(), tandem_op_release);
  if (!first->state->failure()) return;
  tandem_error why = TANDEM_ERROR_INIT;
  const result code = result_of(c::report(first->state->failure(), &why));
  result expected = success;
  if (state_.compare_exchange_strong(expected, code)) last_error_ = why.text;
}

void comm_rank::finish() {
  while (const std::shared_ptr<c::operation_state> first = first_started()) {
    first->wait(c::progress::time_point::max());
    drop_complete(std::numeric_limits<int>::max());
  }
  if (!queue_ || state() != success) return;
  handle_.is_open = false;
  detail::nc::comm native = nullptr;
  ranks_->loop().run_now([&] { native = static_cast<detail::nc::comm>(queue_->release()); });
  if (native == nullptr) return;  // it has been finished before
  const current_device_guard here(*this);
  library_->base->destroy(native);
}

std::shared_ptr<c::operation_state> comm_rank::first_started() const {
  const std::lock_guard lock(mutex_);
  return started_.empty() ? nullptr : started_.front()->state;
}

void comm_rank::abort(const std::string& reason) {
  if (state_ == in_progress || !job_) return;
  state_ = remote_error;
  handle_.is_open = false;
  if (queue_) {
    const error why(
        errc::peer_lost,
        {.rank = rank(), .peer = rank(), .rail = {}, .phase = {}, .detail = reason, .advice = {}});
    ranks_->loop().run_now([&] { lost(why); });
  }
  tandem_job_abort(job_.get(), reason.c_str());
}

current_device_guard::current_device_guard(const comm_rank& of) {
  if (current_device(of.kind()) == of.device()) return;
  of.on().enter();
  entered_ = &of.on();
}

current_device_guard::~current_device_guard() {
  if (entered_ != nullptr) entered_->leave();
}

comm_table& comm_table::of_process() {
  static comm_table& only = *new comm_table;
  return only;
}

comm_handle& comm_table::make_handle() {
  const std::lock_guard lock(mutex_);
  return handles_.emplace_back();
}

comm comm_table::add(std::shared_ptr<comm_rank> made) {
  const std::lock_guard lock(mutex_);
  const comm which = &made->handle();
  all_.emplace(which, std::move(made));
  return which;
}

std::shared_ptr<comm_rank> comm_table::find(comm which) const {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(which);
  return found == all_.end() ? nullptr : found->second;
}

std::shared_ptr<comm_rank> comm_table::remove(comm which) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(which);
  if (found == all_.end()) return nullptr;
  which->is_open = false;
  std::shared_ptr<comm_rank> removed = std::move(found->second);
  all_.erase(found);
  return removed;
}

}  // namespace tandem::nccl_abi
