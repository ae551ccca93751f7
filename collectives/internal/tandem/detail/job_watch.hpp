#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <tandem/communicator.hpp>

namespace tandem::detail {

class loss_watch;

/// Reports the failure of the job to a rank that has no call in progress: another rank has aborted,
/// or is lost. A rank that leaves in an orderly way is no failure.
class job_watch {
 public:
  /// Called at most once, on the communicator's executor, and never after the destructor.
  using failure_handler = std::function<void(const error& why)>;

  /// Connects to one other rank: a job fails on all of them. One for each communicator, which
  /// outlives it. @pre over.size() > 1 @par Errors, cancellation  as of a collective.
  static boost::asio::awaitable<std::unique_ptr<job_watch>> make(communicator& over,
                                                                 failure_handler what);
  /// On the executor.
  ~job_watch();
  job_watch(const job_watch&) = delete;
  job_watch& operator=(const job_watch&) = delete;

 private:
  job_watch();

  std::unique_ptr<loss_watch> watch_;
};

}  // namespace tandem::detail
