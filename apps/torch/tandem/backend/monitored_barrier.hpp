#pragma once

#include <tandem.h>

#include <algorithm>
#include <string>
#include <vector>

#include "errors.hpp"

namespace tandem::torch_backend {

/// A barrier in which rank 0 finds out which ranks do not arrive: it receives a message of each
/// rank, then answers all of them. The texts of errors are those of gloo, which scripts look for.
class monitored_barrier {
 public:
  monitored_barrier(tandem_comm* among, int tag) : among_(among), tag_(tag) {}

  void as_other(milliseconds timeout) {
    if (arrived(tandem_send, 0, timeout) && arrived(tandem_recv, 0, timeout)) return;
    C10_THROW_ERROR(DistBackendError,
                    c10::str("Rank ", tandem_comm_rank(among_),
                             " successfully reached monitoredBarrier, but received errors while "
                             "waiting for send/recv from rank 0. Please check rank 0 logs for "
                             "faulty rank. Original error: ",
                             error_.text));
  }

  void as_rank_0(milliseconds timeout, bool wait_for_all) {
    const auto limit = std::chrono::steady_clock::now() + timeout;
    const int size = tandem_comm_size(among_);
    std::string missing;
    for (int peer = 1; peer < size; ++peer) {
      const auto left =
          std::chrono::duration_cast<milliseconds>(limit - std::chrono::steady_clock::now());
      if (left.count() <= 0 && !wait_for_all) fail("Rank 0 timed out in monitoredBarrier", timeout);
      if (arrived(tandem_recv, peer, left)) continue;
      if (!wait_for_all) fail(c10::str("Rank ", peer, " failed to pass monitoredBarrier"), timeout);
      missing += (missing.empty() ? "" : ", ") + std::to_string(peer);
    }
    if (!missing.empty()) {
      fail(c10::str("Ranks ", missing, " failed to pass monitoredBarrier"), timeout);
    }
    for (int peer = 1; peer < size; ++peer) arrived(tandem_send, peer, timeout);
  }

 private:
  using function = tandem_status (*)(tandem_comm*, tandem_buffer, std::int32_t, std::int32_t,
                                     const tandem_call*, tandem_op**, tandem_error*);

  [[noreturn]] void fail(const std::string& what, milliseconds timeout) const {
    C10_THROW_ERROR(DistBackendError,
                    c10::str("[Rank 0]: ", what, " in ", timeout.count(), " ms; ", error_.text));
  }

  /// Exchanges an empty message.
  bool arrived(function send_or_recv, int peer, milliseconds timeout) {
    tandem_call call = TANDEM_CALL_INIT;
    call.timeout_ms = std::max<std::int64_t>(timeout.count(), 1);
    tandem_op* op = nullptr;
    tandem_status status =
        send_or_recv(among_, {nullptr, 0, TANDEM_HOST, 0}, peer, tag_, &call, &op, &error_);
    if (status == TANDEM_OK) status = tandem_op_wait(op, -1, &error_);
    tandem_op_release(op);
    return status == TANDEM_OK;
  }

  tandem_comm* const among_;
  const int tag_;
  tandem_error error_ = TANDEM_ERROR_INIT;
};

}  // namespace tandem::torch_backend
