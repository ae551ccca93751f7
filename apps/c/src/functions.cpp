#include <fmt/format.h>
#include <tandem.h>

#include <chrono>
#include <cstring>
#include <tandem/detail/stderr_sink.hpp>
#include <tandem/log.hpp>
#include <tandem/version.hpp>
#include <utility>

#include "job_state.hpp"
#include "status.hpp"

namespace tandem::c {
namespace {

settings settings_of(const tandem_job_options& given) {
  settings options = settings::from_environment();
  for (const char* const* pair = given.settings; pair != nullptr && *pair != nullptr; pair += 2) {
    if (pair[1] == nullptr)
      throw error(errc::bad_input, fmt::format("setting '{}' has no value", *pair));
    options.set(pair[0], pair[1]);
  }
  options.meet_timeout = limit_of(given.meet_timeout_ms).value_or(options.meet_timeout);
  options.operation_timeout =
      limit_of(given.operation_timeout_ms).value_or(options.operation_timeout);
  options.check();
  return options;
}

join_request request_of(const tandem_job_options& given) {
  join_request how;
  how.options = settings_of(given);
  how.kind = kind_of(given.memory_kind);
  how.device = given.device;
  if (given.size != 0) {
    require(given.store, "tandem_job_create", "options->store");
    how.who = meet_through(*given.store, given.name == nullptr ? "tandem" : given.name, given.rank,
                           given.size, how.options);
    return how;
  }
  const std::optional<launch_info> found = find_launch();
  if (!found) {
    throw error(errc::bad_input, "tandem_job_create: no launcher's variables are set",
                "start the program by tandem run, torchrun, mpirun or srun, or give rank, size and "
                "a store");
  }
  how.who = *found;
  return how;
}

template <class Make>
tandem_status make_group(tandem_comm** into, tandem_error* failed, Make make) {
  return guarded(failed, [&] {
    require(into, "tandem_comm", "the pointer to the result");
    *into = nullptr;
    const std::shared_ptr<group_of_ranks> made = make();
    if (made) *into = new tandem_comm{made};
  });
}

}  // namespace
}  // namespace tandem::c

using namespace tandem::c;

int tandem_abi_version(void) {
  return TANDEM_ABI_VERSION;
}

const char* tandem_version(void) {
  static const std::string text =
      fmt::format("{} (commit {})", tandem::version(), tandem::commit());
  return text.c_str();
}

const char* tandem_status_name(int status) {
  static thread_local std::string text;
  if (status == TANDEM_OK) return "ok";
  if (status == TANDEM_IN_PROGRESS) return "in progress";
  if (status == TANDEM_ERR_CANCELLED) return "cancelled";
  if (status == TANDEM_ERR_SYSTEM) return "system error";
  text = tandem::error_code(status, tandem::category()).message();
  return text.c_str();
}

void tandem_set_log(tandem_log_function sink, void* context, int min_level) {
  tandem::log_sink inner;
  if (sink != nullptr) {
    inner = [sink, context](const tandem::log_record& record) {
      const std::string component(record.component);
      const std::string text(record.text);
      sink(context, static_cast<int>(record.level), component.c_str(), text.c_str());
    };
  }
  tandem::set_log_sink(std::move(inner), static_cast<tandem::log_level>(min_level));
}

void tandem_log_to_stderr(void) {
  guarded(nullptr, [] { tandem::detail::log_to_stderr(tandem::settings::from_environment().log); });
}

tandem_status tandem_job_create(const tandem_job_options* options, tandem_job** job,
                                tandem_error* error) {
  return guarded(error, [&] {
    require(options, "tandem_job_create", "options");
    require(job, "tandem_job_create", "job");
    *job = nullptr;
    *job = make_job(request_of(*options)).release();
  });
}

void tandem_job_destroy(tandem_job* job) {
  if (job == nullptr) return;
  const std::unique_ptr<tandem_job> handle(job);
  progress& loop = job->state->loop();
  if (loop.is_here()) job->state->finish_queued();
  if (!loop.is_here()) {  // a copy of the parent's: its memory is left alone
    new tandem_job(*job);
    return;
  }
  loop.run_now([&] {
    job->state->leave();
    job->world.state.reset();
    job->state.reset();
  });
}

void tandem_job_abort(tandem_job* job, const char* reason) {
  if (job == nullptr || !job->state->loop().is_here()) return;
  const std::string text = reason == nullptr ? "no reason given" : reason;
  job->state->loop().run_now([&] { job->state->abort(text); });
}

int tandem_job_rank(const tandem_job* job) {
  return job->state->rank();
}

int tandem_job_size(const tandem_job* job) {
  return job->state->size();
}

tandem_comm* tandem_job_world(tandem_job* job) {
  return &job->world;
}

tandem_status tandem_comm_create_group(tandem_comm* parent, const int32_t* ranks, size_t count,
                                       const char* name, tandem_comm** group, tandem_error* error) {
  return make_group(group, error, [&] {
    require(parent, "tandem_comm_create_group", "parent");
    require(ranks, "tandem_comm_create_group", "ranks");
    require(name, "tandem_comm_create_group", "name");
    parent->state->loop().require_here();
    return run_on(
        parent->state->loop(),
        job_state::create_group(parent->state, std::vector<int>(ranks, ranks + count), name));
  });
}

tandem_status tandem_comm_split(tandem_comm* parent, int32_t colour, int32_t key,
                                tandem_comm** part, tandem_error* error) {
  return make_group(part, error, [&] {
    require(parent, "tandem_comm_split", "parent");
    parent->state->loop().require_here();
    return run_on(parent->state->loop(), job_state::split(parent->state, colour, key));
  });
}

void tandem_comm_destroy(tandem_comm* comm) {
  if (comm == nullptr) return;
  const std::unique_ptr<tandem_comm> handle(comm);
  std::shared_ptr<group_of_ranks> state = std::move(comm->state);
  progress& loop = state->loop();
  if (!loop.is_here()) {
    new std::shared_ptr<group_of_ranks>(std::move(state));
    return;
  }
  if (state->library() != nullptr) state->library()->finish_queued();
  loop.run_now([&] {
    state->end(cancelled("the communicator was destroyed"));
    state.reset();
  });
}

void tandem_comm_abort(tandem_comm* comm, const char* reason) {
  if (comm == nullptr || !comm->state->loop().is_here()) return;
  const std::string text = reason == nullptr ? "no reason given" : reason;
  comm->state->loop().run_now([&] { comm->state->job()->abort(text); });
}

int tandem_comm_rank(const tandem_comm* comm) {
  return comm->state->rank();
}

int tandem_comm_size(const tandem_comm* comm) {
  return comm->state->size();
}

tandem_status tandem_comm_state(tandem_comm* comm, tandem_error* error) {
  return guarded(error, [&] {
    require(comm, "tandem_comm_state", "comm");
    comm->state->loop().require_here();
    std::exception_ptr why;
    comm->state->loop().run_now([&] { why = comm->state->ended_by(); });
    if (why) std::rethrow_exception(why);
  });
}

void tandem_comm_describe(tandem_comm* comm, char* text, size_t bytes) {
  if (bytes == 0) return;
  const std::string from = comm->state->describe();
  const std::size_t length = std::min(from.size(), bytes - 1);
  std::memcpy(text, from.data(), length);
  text[length] = '\0';
}
