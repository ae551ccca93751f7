#pragma once

#include <memory>
#include <tandem/settings.hpp>

#include "meeting_point.hpp"

namespace tandem::nccl_abi {

/// The ids that this process has made. Each holds a port, which the rank that serves the meeting
/// listens on: the first rank of this process that joins.
class own_ids {
 public:
  static own_ids& of_process();

  /// On loopback where a launcher says that all ranks run on this host, else at an address that
  /// other hosts can use, if there is one. NCCL_SOCKET_IFNAME chooses among interfaces.
  /// @par Errors  of the system; `errc::bad_input`: no interface has such a name.
  unique_id make(const settings& options);
  /// True for the first call with an id of this process: the caller serves the meeting.
  bool take(const meeting_point& which);
  /// Gives up the port of an id of this process; of others, nothing.
  void release(const unique_id& which) noexcept;

 private:
  own_ids();
  ~own_ids() = delete;

  class reservations;
  const std::unique_ptr<reservations> held_;
};

}  // namespace tandem::nccl_abi
