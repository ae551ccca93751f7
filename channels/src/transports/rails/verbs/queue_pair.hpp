#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "transports/rails/verbs/adapter.hpp"
#include "transports/rails/verbs/qp_info.hpp"

namespace tandem::verbs {

/// One queue pair of a reliable connection (RC).
class queue_pair {
 public:
  struct depths {
    std::uint32_t sends = 0;
    std::uint32_t receives = 0;
    std::uint32_t inline_bytes = 0;  ///< wanted
  };
  /// What its peer addresses: its number and the number of its first packet.
  struct address {
    std::uint32_t number = 0;
    std::uint32_t psn = 0;
  };

  queue_pair() = default;
  /// In the state INIT, with a random PSN. @param access  of the peer, to memory of this end
  /// @par Errors `errc::unreachable`: the call and the reason.
  queue_pair(const adapter& on, ibv_cq* completions, const depths& has, unsigned access);

  /// Moves it to RTR and RTS. @param end  the peer's, of which `remote` is one queue pair
  /// @par Errors `errc::unreachable`: the call and the reason.
  void connect(const address& remote, const qp_info& end, ibv_mtu path_mtu);
  /// Moves it to the error state: posted requests are flushed.
  void stop() noexcept;
  /// Drops requests that the device has not flushed.
  void destroy() noexcept { pair_.reset(); }

  const ibv_qp* get() const noexcept { return pair_.get(); }
  address local() const noexcept { return {pair_->qp_num, psn_}; }
  /// Maximum size of a send whose data the work request itself carries; 0: none.
  std::uint32_t inline_bytes() const noexcept { return inline_bytes_; }

  /// 0, or the errno.
  int post(ibv_send_wr& wr) noexcept {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(pair_.get(), &wr, &bad);
  }
  int post(ibv_recv_wr& wr) noexcept {
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(pair_.get(), &wr, &bad);
  }

 private:
  void create(ibv_cq* completions, const depths& has);
  void to_init(unsigned access);
  void to_ready_to_receive(const address& remote, const qp_info& end, ibv_mtu path_mtu);
  void to_ready_to_send();
  void modify(ibv_qp_attr& to, int mask, const char* call);

  const adapter* on_ = nullptr;
  owned_qp pair_;
  std::uint32_t psn_ = 0;
  std::uint32_t inline_bytes_ = 0;
};

}  // namespace tandem::verbs
