#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "transports/rails/lane_table.hpp"
#include "transports/rails/send_window.hpp"

namespace tandem::rails {

/// Divides chunks among the lanes of one end by their rates, which it measures while something is
/// in flight.
class lane_shares {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  lane_shares(const lane_table& lanes, const send_window& sent)
      : lanes_(lanes), send_window_(sent), rates_(lanes.size()) {}

  /// The lane is up again: what was measured before does not count.
  void lane_up(std::uint16_t lane, time_point now) noexcept;
  /// Whether this lane carries the next chunk, of `chunk_bytes`, while `left_bytes` remain to be
  /// sent on all lanes. Where not, `pass_over` follows.
  bool may_take_chunk(std::uint16_t lane, std::uint32_t chunk_bytes, std::uint64_t left_bytes,
                      time_point now) const;
  void pass_over(std::uint16_t lane, time_point now) noexcept;
  void took_chunk(std::uint16_t lane) noexcept { rates_[lane].passed_over_at.reset(); }
  /// A packet is about to be written: a lane that was idle is measured from here on.
  void writing(std::uint16_t lane, time_point now) noexcept;
  /// To be called after a report of the peer.
  void measure(time_point now) noexcept;
  /// 0: unknown.
  double measured_bytes_per_s(std::uint16_t lane) const noexcept {
    return rates_[lane].bytes_per_s;
  }

 private:
  struct rate {
    double bytes_per_s = 0;
    std::uint64_t measured_bytes = 0;
    time_point measured_at;
    std::optional<time_point> passed_over_at;  // no chunk since then, because of its rate
  };

  void restart_sample(std::uint16_t lane, time_point now) noexcept;
  double current_bytes_per_s(std::uint16_t lane, time_point now, double unknown_bytes_per_s) const;
  double mean_bytes_per_s() const noexcept;

  const lane_table& lanes_;
  const send_window& send_window_;
  std::vector<rate> rates_;
};

}  // namespace tandem::rails
