#include <tandem/detail/meter.hpp>

namespace tandem::detail {
namespace {

metric_description counter_of(std::string_view name, std::string_view help) {
  return {metric_description::kind::counter, name, help, {}};
}

}  // namespace

channel_meter::channel_meter(std::string_view transport, int rank, int peer) {
  const std::shared_ptr<metrics_sink> sink = current_metrics_sink();
  if (!sink) return;
  metric_description messages =
      counter_of("tandem_messages_total", "Messages of channels that were completed.");
  metric_description bytes =
      counter_of("tandem_bytes_total", "Payload bytes of completed messages of channels.");
  for (const char* const direction : {"sent", "received"}) {
    messages.labels = {{"rank", std::to_string(rank)},
                       {"peer", std::to_string(peer)},
                       {"transport", std::string(transport)},
                       {"direction", direction}};
    bytes.labels = messages.labels;
    const bool is_sent = std::string_view(direction) == "sent";
    (is_sent ? sent_ : received_) = meter(*sink, messages);
    (is_sent ? sent_bytes_ : received_bytes_) = meter(*sink, bytes);
  }
}

rail_meter::rail_meter(const std::string& rail, int rank, int peer) {
  const std::shared_ptr<metrics_sink> sink = current_metrics_sink();
  if (!sink) return;
  is_on_ = true;
  metric_description losses =
      counter_of("tandem_rail_losses_total", "Connections of rails that were lost.");
  losses.labels = {{"rank", std::to_string(rank)}, {"peer", std::to_string(peer)}, {"rail", rail}};
  losses_ = meter(*sink, losses);
  metric_description bytes =
      counter_of("tandem_rail_bytes_total", "Bytes that arrived over rails, headers included.");
  for (const char* const direction : {"sent", "received"}) {
    bytes.labels = losses.labels;
    bytes.labels.emplace_back("direction", direction);
    (std::string_view(direction) == "sent" ? sent_ : received_) = meter(*sink, bytes);
  }
}

void rail_meter::reached(std::uint64_t sent, std::uint64_t received) noexcept {
  if (!is_on_) return;
  // A new connection of a rail goes on with the counts of the one before.
  if (sent > sent_so_far_) sent_.add(static_cast<double>(sent - sent_so_far_));
  if (received > received_so_far_) received_.add(static_cast<double>(received - received_so_far_));
  sent_so_far_ = sent;
  received_so_far_ = received;
}

call_meter::call_meter(metrics_sink& to, const std::string& call, int rank, unsigned group) {
  metric_description seconds{
      metric_description::kind::histogram,
      "tandem_call_seconds",
      "Time of collectives, from the call to its completion.",
      {{"rank", std::to_string(rank)}, {"group", std::to_string(group)}, {"call", call}}};
  metric_description bytes =
      counter_of("tandem_call_bytes_total", "Bytes of this rank's data in collectives.");
  bytes.labels = seconds.labels;
  seconds_ = meter(to, seconds);
  bytes_ = meter(to, bytes);
}

void call_metrics::ended(std::string_view call, int rank, unsigned group,
                         std::chrono::steady_clock::duration time, std::uint64_t bytes) noexcept {
  try {
    auto found = by_name_.find(call);
    if (found == by_name_.end()) {
      found = by_name_.try_emplace(call, *sink_, std::string(call), rank, group).first;
    }
    found->second.ended(std::chrono::duration<double>(time).count(), bytes);
  } catch (const std::exception&) {  // no memory: this call is not counted
  }
}

void count_failure(int rank, const error_code& code) noexcept {
  const std::shared_ptr<metrics_sink> sink = current_metrics_sink();
  if (!sink) return;
  try {
    metric_description failures =
        counter_of("tandem_failures_total", "Fabrics that ended by an error.");
    failures.labels = {{"rank", std::to_string(rank)}, {"error", code.message()}};
    meter(*sink, failures).add(1);
  } catch (const std::exception&) {  // no memory: it is not counted
  }
}

}  // namespace tandem::detail
