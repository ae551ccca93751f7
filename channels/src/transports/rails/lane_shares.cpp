#include "transports/rails/lane_shares.hpp"

#include <algorithm>
#include <limits>

#include "transports/rails/reassembly.hpp"

namespace tandem::rails {
namespace {

/// Fewer bytes may be reported late, so their timing does not show the lane's rate.
constexpr std::uint64_t min_sample_bytes = bytes_per_report;

}  // namespace

void lane_shares::lane_up(std::uint16_t lane, time_point now) noexcept {
  rates_[lane].bytes_per_s = 0;
  rates_[lane].passed_over_at.reset();
  restart_sample(lane, now);
}

void lane_shares::restart_sample(std::uint16_t lane, time_point now) noexcept {
  rates_[lane].measured_at = now;
  rates_[lane].measured_bytes = send_window_.acknowledged_bytes(lane);
}

void lane_shares::writing(std::uint16_t lane, time_point now) noexcept {
  if (send_window_.in_flight_bytes(lane) < min_sample_bytes) restart_sample(lane, now);
}

/// A lane takes only its share: nothing while it is suspect, and no chunk that the other lanes
/// would finish earlier. The lane that would finish the next chunk first always takes it.
bool lane_shares::may_take_chunk(std::uint16_t lane, std::uint32_t chunk_bytes,
                                 std::uint64_t left_bytes, time_point now) const {
  using state = lane_table::state;
  const bool is_standby = lanes_.is_standby(lane);
  if (is_standby && lanes_.any_active_up()) return false;
  const auto chunk = static_cast<double>(chunk_bytes);
  double others_bytes_per_s = 0, others_bytes = static_cast<double>(left_bytes);
  double first_s = std::numeric_limits<double>::max();
  const double unknown_bytes_per_s = mean_bytes_per_s();
  bool others_up = false;
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    if (i == lane || lanes_.at(i) != state::up) continue;
    const bool is_idle_standby = lanes_.is_standby(i) && !is_standby;
    if (is_idle_standby && lanes_.at(lane) == state::up) continue;
    others_up = true;
    const double bytes_per_s = current_bytes_per_s(i, now, unknown_bytes_per_s);
    const auto in_flight = static_cast<double>(send_window_.in_flight_bytes(i));
    others_bytes_per_s += bytes_per_s;
    others_bytes += in_flight;
    first_s = std::min(first_s, (in_flight + chunk) / bytes_per_s);
  }
  if (!others_up) return true;
  if (lanes_.at(lane) == state::suspect) return false;
  if (left_bytes == 0) return true;
  const double own_rate = current_bytes_per_s(lane, now, unknown_bytes_per_s);
  const double own_s = (static_cast<double>(send_window_.in_flight_bytes(lane)) + chunk) / own_rate;
  return own_s <= std::max(first_s, others_bytes / others_bytes_per_s);
}

/// A lane that gets no chunks for long is not measured either, and may have recovered: its rate is
/// forgotten, so that the next chunk measures it again.
void lane_shares::pass_over(std::uint16_t lane, time_point now) noexcept {
  constexpr std::chrono::seconds until_forgotten{5};
  rate& of = rates_[lane];
  if (!of.passed_over_at) of.passed_over_at = now;
  if (now - *of.passed_over_at < until_forgotten) return;
  of.bytes_per_s = 0;
  of.passed_over_at.reset();
}

/// The mean of the known rates, or an arbitrary value: messages too short to measure a rate are
/// divided evenly.
double lane_shares::mean_bytes_per_s() const noexcept {
  double sum = 0;
  int known = 0;
  for (std::uint16_t i = 0; i < rates_.size(); ++i) {
    if (lanes_.at(i) != lane_table::state::up || rates_[i].bytes_per_s <= 0) continue;
    sum += rates_[i].bytes_per_s;
    ++known;
  }
  return known > 0 ? sum / known : 1e9;
}

/// The measured rate, or less where the bytes in flight are overdue at that rate.
double lane_shares::current_bytes_per_s(std::uint16_t lane, time_point now,
                                        double unknown_bytes_per_s) const {
  const rate& of = rates_[lane];
  const double bytes_per_s = of.bytes_per_s > 0 ? of.bytes_per_s : unknown_bytes_per_s;
  const auto in_flight = static_cast<double>(send_window_.in_flight_bytes(lane));
  const double waited_s = std::chrono::duration<double>(now - of.measured_at).count();
  const bool is_late = in_flight > 0 && waited_s * bytes_per_s > in_flight;
  return is_late ? in_flight / waited_s : bytes_per_s;
}

void lane_shares::measure(time_point now) noexcept {
  constexpr double min_s = 0.01;  // shorter samples measure bursts
  constexpr double newest = 0.3;  // weight of the last sample
  for (std::uint16_t i = 0; i < rates_.size(); ++i) {
    rate& of = rates_[i];
    const std::uint64_t bytes = send_window_.acknowledged_bytes(i) - of.measured_bytes;
    const double elapsed_s = std::chrono::duration<double>(now - of.measured_at).count();
    if (bytes < min_sample_bytes || elapsed_s < min_s) continue;
    const double sample = static_cast<double>(bytes) / elapsed_s;
    of.bytes_per_s =
        of.bytes_per_s > 0 ? of.bytes_per_s + newest * (sample - of.bytes_per_s) : sample;
    of.measured_at = now;
    of.measured_bytes += bytes;
  }
}

}  // namespace tandem::rails
