#include <tandem/detail/job_watch.hpp>
#include <utility>

#include "communicator/group.hpp"
#include "islands/loss_watch.hpp"

namespace tandem::detail {

job_watch::job_watch() = default;
job_watch::~job_watch() = default;

boost::asio::awaitable<std::unique_ptr<job_watch>> job_watch::make(communicator& over,
                                                                   failure_handler what) {
  const std::shared_ptr<group> in = over.internals();
  const int next = (over.rank() + 1) % over.size();
  if (!in->connected(next)) co_await in->connect(next);
  std::unique_ptr<job_watch> made(new job_watch);
  made->watch_ =
      std::make_unique<loss_watch>(*in, next, [then = std::move(what)](const error& why) {
        if (why.code() != errc::channel_closed && why.code() != errc::peer_closed) then(why);
      });
  co_return made;
}

}  // namespace tandem::detail
