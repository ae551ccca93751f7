#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tandem/channel.hpp>
#include <vector>

namespace tandem::train {

/// How a rail is: the worse, the later.
enum class rail_state : std::int32_t { up, suspect, absent, lost };
std::string_view name(rail_state of) noexcept;

/// A rail at one time of the run. Travels to rank 0 as it is, like `rail_end`.
struct rail_point {
  double at_s = 0;         ///< since the common start
  std::uint64_t sent = 0;  ///< bytes so far
  std::uint64_t received = 0;
  rail_state worst = rail_state::up;  ///< since the point before

  std::uint64_t bytes() const noexcept { return sent + received; }
};

/// One rail as one of its two ranks sees it.
struct rail_end {
  std::int32_t rank = 0, peer = 0, lane = 0;
  rail_state state = rail_state::absent;
  std::uint32_t epoch = 0, times_lost = 0;
  std::uint64_t sent = 0, received = 0;  ///< bytes, headers included
  std::uint64_t points = 0;              ///< how many travel with it
  std::array<char, 40> nic{};            ///< this rank's, and its RDMA device where that carries
  std::array<char, 128> why_lost{};      ///< the last time

  std::uint64_t bytes() const noexcept { return sent + received; }
};

/// A rail's course. Of the two ranks the lower one alone keeps points: the other's would say the
/// same.
struct rail_history {
  rail_end end;
  std::vector<rail_point> points;
};

/// All rails of this rank that go over one of its NICs, now.
struct nic_now {
  std::string nic;
  int lanes = 0;  ///< rails, of all peers
  int up = 0;
  rail_state worst = rail_state::up;  ///< of the lanes
  double bytes_per_s = 0;             ///< both ways, over the last half second or more
};

/// What the rails of one rank did, in bounded memory: at most `most_points` of each, ever farther
/// apart in a long run. One thread at a time.
class rail_log {
 public:
  static constexpr std::size_t most_points = 300;

  explicit rail_log(int rank) : rank_(rank) {}

  /// What the channel to a peer says of its rails. Times do not go back.
  void take(double at_s, int peer, const std::vector<rail_stats>& now);
  /// The last state of each rail is a point, too.
  void finish(double at_s);
  /// By NIC, for the progress line.
  std::vector<nic_now> live(double at_s);
  std::vector<rail_history> rails() const;

 private:
  struct entry {
    rail_history history;
    rail_state worst = rail_state::up;  // since the last point
    std::uint64_t marked_bytes = 0;
    double bytes_per_s = 0;
  };
  entry& find(double at_s, int peer, std::size_t lane);
  void keep(double at_s, entry& of);
  void thin_out();

  int rank_;
  std::vector<entry> entries_;
  double kept_every_s_ = 0.05;
  double look_s_ = 0, look_before_s_ = 0;
  double marked_s_ = -1;
};

/// The interface in a rail's name, printable: its first word, and the RDMA device where the rail
/// goes "over" one: "eth0/rxe0".
std::string nic_of(std::string_view rail_name);

}  // namespace tandem::train
