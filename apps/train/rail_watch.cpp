#include "rail_watch.hpp"

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

namespace tandem::train {

struct rail_watch::sampler : std::enable_shared_from_this<sampler> {
  static constexpr std::chrono::milliseconds every{50};

  sampler(fabric& over, const timeline& since)
      : over_(over), since_(since), log_(over.rank()), timer_(over.get_executor()) {}

  void sample() {
    const double at_s = since_.elapsed_s();
    for (int peer = 0; peer < over_.size(); ++peer) {
      if (peer == over_.rank()) continue;
      if (const channel* const to = over_.find(peer)) log_.record(at_s, peer, to->rails());
    }
  }
  void schedule_sample() {
    timer_.expires_after(every);
    timer_.async_wait([weak = weak_from_this()](boost::system::error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self || self->stopped_) return;
      self->sample();
      self->schedule_sample();
    });
  }

  fabric& over_;
  const timeline& since_;
  rail_log log_;
  asio::steady_timer timer_;
  bool stopped_ = false;
};

rail_watch::rail_watch(fabric& over, const timeline& since)
    : sampler_(std::make_shared<sampler>(over, since)) {}

rail_watch::~rail_watch() = default;

void rail_watch::start() {
  sampler_->sample();
  if (sampler_->over_.size() > 1) sampler_->schedule_sample();
}

void rail_watch::stop() {
  if (std::exchange(sampler_->stopped_, true)) return;
  sampler_->timer_.cancel();
  sampler_->sample();
  sampler_->log_.finish(sampler_->since_.elapsed_s());
}

std::vector<nic_status> rail_watch::live() {
  sampler_->sample();
  return sampler_->log_.live(sampler_->since_.elapsed_s());
}

std::vector<rail_history> rail_watch::rails() const {
  return sampler_->log_.rails();
}

}  // namespace tandem::train
