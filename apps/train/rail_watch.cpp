#include "rail_watch.hpp"

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

namespace tandem::train {

struct rail_watch::looker : std::enable_shared_from_this<looker> {
  static constexpr std::chrono::milliseconds every{50};

  looker(fabric& over, const timeline& since)
      : over_(over), since_(since), log_(over.rank()), timer_(over.get_executor()) {}

  void look() {
    const double at_s = since_.elapsed_s();
    for (int peer = 0; peer < over_.size(); ++peer) {
      if (peer == over_.rank()) continue;
      if (const channel* const to = over_.find(peer)) log_.take(at_s, peer, to->rails());
    }
  }
  void look_again() {
    timer_.expires_after(every);
    timer_.async_wait([weak = weak_from_this()](boost::system::error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self || self->stopped_) return;
      self->look();
      self->look_again();
    });
  }

  fabric& over_;
  const timeline& since_;
  rail_log log_;
  asio::steady_timer timer_;
  bool stopped_ = false;
};

rail_watch::rail_watch(fabric& over, const timeline& since)
    : looker_(std::make_shared<looker>(over, since)) {}

rail_watch::~rail_watch() = default;

void rail_watch::start() {
  looker_->look();
  if (looker_->over_.size() > 1) looker_->look_again();
}

void rail_watch::stop() {
  if (std::exchange(looker_->stopped_, true)) return;
  looker_->timer_.cancel();
  looker_->look();
  looker_->log_.finish(looker_->since_.elapsed_s());
}

std::vector<nic_now> rail_watch::live() {
  looker_->look();
  return looker_->log_.live(looker_->since_.elapsed_s());
}

std::vector<rail_history> rail_watch::rails() const {
  return looker_->log_.rails();
}

}  // namespace tandem::train
