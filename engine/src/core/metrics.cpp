#include <fmt/format.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <tandem/detail/meter.hpp>
#include <tandem/metrics.hpp>

namespace tandem {
namespace {

std::mutex sink_mutex;
std::shared_ptr<metrics_sink> the_sink;

void add_to(std::atomic<double>& sum, double value) noexcept {
  double before = sum.load(std::memory_order_relaxed);
  while (!sum.compare_exchange_weak(before, before + value, std::memory_order_relaxed)) continue;
}

class counter final : public metric {
 public:
  void add(double value) noexcept override { add_to(sum_, value); }
  double value() const noexcept { return sum_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> sum_{0};
};

class histogram final : public metric {
 public:
  histogram() : counts_(prometheus_exporter::bucket_bounds().size() + 1) {}
  void add(double value) noexcept override {
    const std::vector<double>& bounds = prometheus_exporter::bucket_bounds();
    std::size_t bucket = 0;
    while (bucket < bounds.size() && value > bounds[bucket]) ++bucket;
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    add_to(sum_, value);
  }
  std::uint64_t count(std::size_t bucket) const noexcept {
    return counts_[bucket].load(std::memory_order_relaxed);
  }
  double sum() const noexcept { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<double> sum_{0};
};

/// A label's value as the format wants it.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result;
}

std::string labels_of(const metric_description& which) {
  std::string text;
  for (const auto& [name, value] : which.labels) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escaped(value));
  }
  return text;
}

/// The series of one name.
struct family {
  metric_description::kind what = metric_description::kind::counter;
  std::string help;
  std::map<std::string, std::shared_ptr<metric>> series;  // by labels
};

std::string braced(const std::string& labels, const std::string& more = {}) {
  if (labels.empty() && more.empty()) return {};
  return fmt::format("{{{}{}{}}}", labels, labels.empty() || more.empty() ? "" : ",", more);
}

void write_histogram(std::string& to, const std::string& name, const std::string& labels,
                     const histogram& one) {
  const std::vector<double>& bounds = prometheus_exporter::bucket_bounds();
  std::uint64_t count = 0;
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    count += one.count(i);
    const std::string bound = i < bounds.size() ? fmt::format("{:g}", bounds[i]) : "+Inf";
    to += fmt::format("{}_bucket{} {}\n", name, braced(labels, fmt::format("le=\"{}\"", bound)),
                      count);
  }
  to += fmt::format("{}_sum{} {}\n", name, braced(labels), one.sum());
  to += fmt::format("{}_count{} {}\n", name, braced(labels), count);
}

}  // namespace

std::shared_ptr<metrics_sink> set_metrics_sink(std::shared_ptr<metrics_sink> sink) {
  const std::lock_guard lock(sink_mutex);
  return std::exchange(the_sink, std::move(sink));
}

std::shared_ptr<metrics_sink> detail::current_metrics_sink() {
  const std::lock_guard lock(sink_mutex);
  return the_sink;
}

struct prometheus_exporter::state {
  mutable std::mutex mutex;
  std::map<std::string, family, std::less<>> families;  // by name
};

prometheus_exporter::prometheus_exporter() : state_(std::make_unique<state>()) {}
prometheus_exporter::~prometheus_exporter() = default;

const std::vector<double>& prometheus_exporter::bucket_bounds() {
  static const std::vector<double> bounds = [] {
    std::vector<double> all;
    for (double decade = 1e-6; decade < 90; decade *= 10) {
      for (const double step : {1.0, 2.0, 5.0}) all.push_back(step * decade);
    }
    all.push_back(100);
    return all;
  }();
  return bounds;
}

std::shared_ptr<metric> prometheus_exporter::open(const metric_description& which) noexcept {
  try {
    const std::lock_guard lock(state_->mutex);
    family& all = state_->families[std::string(which.name)];
    all.what = which.what;
    all.help = which.help;
    std::shared_ptr<metric>& one = all.series[labels_of(which)];
    if (!one && which.what == metric_description::kind::counter) one = std::make_shared<counter>();
    if (!one) one = std::make_shared<histogram>();
    return one;
  } catch (const std::exception&) {  // no memory: this series is not counted
    return nullptr;
  }
}

std::string prometheus_exporter::text() const {
  const std::lock_guard lock(state_->mutex);
  std::string text;
  for (const auto& [name, all] : state_->families) {
    const bool is_counter = all.what == metric_description::kind::counter;
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, all.help, name,
                        is_counter ? "counter" : "histogram");
    for (const auto& [labels, one] : all.series) {
      if (is_counter) {
        text += fmt::format("{}{} {}\n", name, braced(labels),
                            static_cast<const counter&>(*one).value());
      } else {
        write_histogram(text, name, labels, static_cast<const histogram&>(*one));
      }
    }
  }
  return text;
}

}  // namespace tandem
