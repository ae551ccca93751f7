// Private: shared by the engine and the modules built on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/error.hpp>
#include <tandem/metrics.hpp>

namespace tandem::detail {

/// The sink of the process; null: none.
std::shared_ptr<metrics_sink> current_metrics_sink();

/// One series, or nothing where there is no sink.
class meter {
 public:
  meter() = default;
  meter(metrics_sink& to, const metric_description& which) : series_(to.open(which)) {}
  void add(double value) const noexcept {
    if (series_) series_->add(value);
  }

 private:
  std::shared_ptr<metric> series_;
};

/// Messages and bytes of a channel, in both directions.
class channel_meter {
 public:
  channel_meter() = default;
  channel_meter(std::string_view transport, int rank, int peer);

  void sent(std::uint64_t bytes) const noexcept { count(sent_, sent_bytes_, bytes); }
  void received(std::uint64_t bytes) const noexcept { count(received_, received_bytes_, bytes); }

 private:
  static void count(const meter& messages, const meter& bytes, std::uint64_t length) noexcept {
    messages.add(1);
    bytes.add(static_cast<double>(length));
  }

  meter sent_, sent_bytes_, received_, received_bytes_;
};

/// Traffic and losses of a rail.
class rail_meter {
 public:
  rail_meter() = default;
  rail_meter(const std::string& rail, int rank, int peer);

  /// Bytes that have arrived so far.
  void reached(std::uint64_t sent, std::uint64_t received) noexcept;
  void lost() const noexcept { losses_.add(1); }

 private:
  meter sent_, received_, losses_;
  std::uint64_t sent_so_far_ = 0, received_so_far_ = 0;
  bool is_on_ = false;
};

/// Times and bytes of one kind of collective.
class call_meter {
 public:
  call_meter(metrics_sink& to, const std::string& call, int rank, unsigned group);
  void ended(double seconds, std::uint64_t bytes) const noexcept {
    seconds_.add(seconds);
    bytes_.add(static_cast<double>(bytes));
  }

 private:
  meter seconds_, bytes_;
};

/// Times and bytes of the collectives of a group.
class call_metrics {
 public:
  bool is_on() const noexcept { return sink_ != nullptr; }
  /// @pre `is_on()`, and `call` is the name of a collective, whose text stays
  void ended(std::string_view call, int rank, unsigned group,
             std::chrono::steady_clock::duration time, std::uint64_t bytes) noexcept;

 private:
  const std::shared_ptr<metrics_sink> sink_ = current_metrics_sink();
  std::map<std::string_view, call_meter> by_name_;
};

/// A fabric has ended by an error.
void count_failure(int rank, const error_code& code) noexcept;

}  // namespace tandem::detail
