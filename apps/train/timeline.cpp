#include "timeline.hpp"

namespace tandem::train {

std::string_view name(activity what) noexcept {
  switch (what) {
    case activity::forward:
      return "forward";
    case activity::backward:
      return "backward";
    case activity::send:
      return "send wait";
    case activity::recv:
      return "receive wait";
    case activity::all_reduce:
      return "all-reduce";
    case activity::update:
      return "update";
  }
  return "unknown";
}

bool waits(activity what) noexcept {
  return what == activity::send || what == activity::recv || what == activity::all_reduce;
}

void timeline::add(activity what, int micro_batch, clock::time_point begin, clock::time_point end) {
  seconds_[static_cast<std::size_t>(what)] += std::chrono::duration<double>(end - begin).count();
  if (!keep_) return;
  const auto since_us = [this](clock::time_point at) {
    return std::chrono::duration<double, std::micro>(at - origin_).count();
  };
  intervals_.push_back({what, micro_batch, since_us(begin), since_us(end)});
}

double timeline::waited_s() const noexcept {
  double sum = 0;
  for (std::size_t i = 0; i < activity_count; ++i) {
    if (waits(static_cast<activity>(i))) sum += seconds_[i];
  }
  return sum;
}

}  // namespace tandem::train
