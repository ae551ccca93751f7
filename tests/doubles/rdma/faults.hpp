#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doubles/rdma/double.hpp"

namespace tandem::test::rdma {

using call = rdma_double::call;

/// The failures that a test requested and that have not happened yet.
class injected_faults {
 public:
  void fail_next(call which, int error, int after);
  void fail_next_wr(ibv_wc_status status, const std::string& device);

  /// The errno with which this call fails, or 0.
  int take_error(call which);
  /// The status with which a request posted to this device completes, if one was injected.
  std::optional<ibv_wc_status> take_status(const std::string& device);

 private:
  struct of_call {
    call which;
    int error;
    int after;
  };
  struct of_request {
    ibv_wc_status status;
    std::string device;  ///< empty: any
  };
  std::vector<of_call> calls_;
  std::vector<of_request> requests_;
};

}  // namespace tandem::test::rdma
