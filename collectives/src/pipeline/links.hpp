#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <tandem/pipeline_schedule.hpp>
#include <utility>
#include <vector>

namespace tandem::detail {

/// The messages between the stages of a pipeline, and the links that they occupy: one for each
/// direction between two ranks. Integers only.
///
/// A flow is a direction between two stages: 2 * s carries activations from stage s to the next
/// one, 2 * s + 1 gradients back. Its messages go in order; a message begins once it is produced,
/// its receive is posted, and the link is free, and flows never block each other.
class links {
 public:
  links(pipeline_placement placement, int ranks, int chunks, message_cost cost, int buffers);

  /// Both stages of the flow are on different ranks.
  bool is_remote(int flow) const { return flows_[index(flow)].link != none; }
  /// Messages that have arrived. The buffer of such a message is free at the sender.
  int arrived(int flow) const { return flows_[index(flow)].arrived; }
  /// Whether the sender has a buffer for this message. @pre is_remote(flow)
  bool has_buffer(int flow, int message) const { return message - arrived(flow) < sender_buffers_; }
  /// The next message is ready to be sent. @pre is_remote(flow)
  void produced(int flow, std::int64_t now);
  /// The receiver has used the oldest message, and posts another receive. @pre is_remote(flow)
  void consumed(int flow, std::int64_t now);

  /// When a message arrives or a link becomes free next; nothing: none is in flight.
  std::optional<std::int64_t> next_event() const;
  /// @pre now <= next_event()
  void advance(std::int64_t now);

 private:
  static constexpr int none = -1;
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  struct flow_state {
    int link = none;
    int begun = 0, arrived = 0, consumed = 0;
  };
  struct link_state {
    std::int64_t free_at = 0;
    std::deque<int> waiting;  // flows, one entry for each message
  };
  struct event {
    std::int64_t at;
    int arrived_on;  // flow, or none
    int freed;       // link, or none
    bool operator>(const event& other) const { return at > other.at; }
  };

  void begin_messages(int which, std::int64_t now);

  const message_cost cost_;
  const int sender_buffers_, receiver_buffers_;
  std::vector<flow_state> flows_;
  std::vector<link_state> links_;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
};

}  // namespace tandem::detail
