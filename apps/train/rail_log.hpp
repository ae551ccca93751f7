#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tandem/channel.hpp>
#include <vector>

namespace tandem::train {

/// State of a rail, in order of severity.
enum class rail_state : std::int32_t { up, suspect, absent, lost };
std::string_view name(rail_state of) noexcept;

/// Sample of a rail. Sent to rank 0 as raw bytes, like `rail_end`.
struct rail_point {
  double at_s = 0;         ///< since the start of the run
  std::uint64_t sent = 0;  ///< bytes so far
  std::uint64_t received = 0;
  rail_state worst = rail_state::up;  ///< since the previous point

  std::uint64_t bytes() const noexcept { return sent + received; }
};

/// One rail as one of its two ranks sees it.
struct rail_end {
  std::int32_t rank = 0, peer = 0, lane = 0;
  rail_state state = rail_state::absent;
  std::uint32_t epoch = 0, times_lost = 0;
  std::uint64_t sent = 0, received = 0;  ///< bytes, headers included
  std::uint64_t points = 0;              ///< number of points sent with it
  std::array<char, 40> nic{};            ///< this rank's NIC, and its RDMA device if in use
  std::array<char, 128> why_lost{};      ///< reason of the last loss

  std::uint64_t bytes() const noexcept { return sent + received; }
};

/// History of a rail. Only the lower of the two ranks keeps points: those of the other would be
/// redundant.
struct rail_history {
  rail_end end;
  std::vector<rail_point> points;
};

/// Current state of all rails of this rank over one of its NICs.
struct nic_status {
  std::string nic;
  int lanes = 0;  ///< rails to all peers
  int up = 0;
  rail_state worst = rail_state::up;  ///< worst state of the lanes
  double bytes_per_s = 0;             ///< both directions, over the last half second or more
};

/// History of the rails of one rank in bounded memory: at most `max_points` points per rail, whose
/// spacing doubles when they are used up. Not thread-safe.
class rail_log {
 public:
  static constexpr std::size_t max_points = 300;

  explicit rail_log(int rank) : rank_(rank) {}

  /// Records the rail statistics of the channel to a peer. @pre `at_s` does not decrease.
  void record(double at_s, int peer, const std::vector<rail_stats>& now);
  /// Adds the last state of each rail as a point.
  void finish(double at_s);
  /// Current state by NIC, for the progress line.
  std::vector<nic_status> live(double at_s);
  std::vector<rail_history> rails() const;

 private:
  struct entry {
    rail_history history;
    rail_state worst = rail_state::up;  // since the last point
    std::uint64_t rate_start_bytes = 0;
    double bytes_per_s = 0;
  };
  entry& find(double at_s, int peer, std::size_t lane);
  void keep(double at_s, entry& of);
  void thin_out();

  int rank_;
  std::vector<entry> entries_;
  double point_spacing_s_ = 0.05;
  double sample_s_ = 0, previous_sample_s_ = 0;
  double rate_start_s_ = -1;
};

/// The interface in a rail's name, in printable characters: the first word, and the RDMA device if
/// the name has "over DEVICE": "eth0/rxe0".
std::string nic_of(std::string_view rail_name);

/// "1.2 GB/s": 1e9 bytes.
std::string rate_text(double bytes_per_s);
/// "1.2 GB"
std::string bytes_text(double bytes);

/// The state of the rails in forms of decreasing length; empty if there are none:
/// "eth0 up 1.2 GB/s  eth1 lost", "eth0 1.2 GB/s  eth1 lost", "1 of 2 NICs up 1.2 GB/s, eth1 lost",
/// "1/2 up 1.2 GB/s".
std::vector<std::string> rail_texts(const std::vector<nic_status>& nics);

}  // namespace tandem::train
