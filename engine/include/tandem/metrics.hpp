/// Counters and histograms of what happens, for a monitoring system.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {

/// A time series: its name, its labels, and what it is.
///
/// | name | kind | labels | one value is |
/// |---|---|---|---|
/// | `tandem_messages_total` | counter | rank, peer, transport, direction | a message |
/// | `tandem_bytes_total` | counter | rank, peer, transport, direction | bytes of payload |
/// | `tandem_rail_bytes_total` | counter | rank, peer, rail, direction | bytes, headers included |
/// | `tandem_rail_losses_total` | counter | rank, peer, rail | a connection of a rail that was lost
/// | | `tandem_call_seconds` | histogram | rank, group, call | the time of a collective | |
/// `tandem_call_bytes_total` | counter | rank, group, call | bytes of this rank's data in it | |
/// `tandem_failures_total` | counter | rank, error | the end of this rank's fabric by an error |
///
/// `direction` is "sent" or "received". `rank` and `peer` are ranks of the job, -1 without a job. A
/// message over a `devices` fabric counts as one of "devices" and as those of the transport below.
struct metric_description {
  /// What its values are.
  enum class kind : std::uint8_t { counter, histogram };
  kind what = kind::counter;
  std::string_view name;
  std::string_view help;
  std::vector<std::pair<std::string_view, std::string>> labels;
};

/// Takes the values of one time series.
class metric {
 public:
  virtual ~metric() = default;
  /// Counter: `value` more. Histogram: one observation. Called on the loop of a channel or
  /// communicator, for one series from one thread at a time.
  virtual void add(double value) noexcept = 0;
};

/// Receives all metrics: the one hook.
///
/// @par Cost  Without a sink a comparison per message. With one, a virtual call per value, two per
///   message.
class metrics_sink {
 public:
  virtual ~metrics_sink() = default;
  /// A time series begins: a channel, a rail, or the first call of its kind. The same description
  /// may come again, for a channel that replaces another. Null: its values are not wanted.
  /// Thread-safe; must not throw.
  virtual std::shared_ptr<metric> open(const metric_description& which) noexcept = 0;
};

/// Replaces the sink of the process and returns the previous one; null: none, as at first.
/// Channels, fabrics and communicators use the sink that was there when they were made.
/// Thread-safe.
std::shared_ptr<metrics_sink> set_metrics_sink(std::shared_ptr<metrics_sink> sink);

/// Collects all metrics in memory and writes them as Prometheus reads them (text exposition format,
/// version 0.0.4). Nothing runs in the background: an HTTP server, or a file, takes `text()` when
/// it is asked for.
///
///   const auto metrics = std::make_shared<tandem::prometheus_exporter>();
///   tandem::set_metrics_sink(metrics);
///   ...
///   respond(metrics->text());  // Content-Type: text/plain; version=0.0.4
///
/// Thread-safe.
class prometheus_exporter final : public metrics_sink {
 public:
  prometheus_exporter();
  ~prometheus_exporter() override;
  std::shared_ptr<metric> open(const metric_description& which) noexcept override;
  /// All series so far, also those of channels that have ended.
  std::string text() const;
  /// The upper bounds of the buckets of a histogram, in its unit, without the infinite one: 1, 2,
  /// 5, 10... from 1e-6 to 100.
  static const std::vector<double>& bucket_bounds();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace tandem

#pragma GCC visibility pop
