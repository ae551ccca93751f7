#include "transports/rails/verbs/status_text.hpp"

namespace tandem::verbs {
namespace {

constexpr std::string_view report_it = "this is a bug in this program: report it with the log";
constexpr std::string_view not_used = "a type of request or connection that Tandem never uses";

}  // namespace

status_text text_for(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS:
      return {"done", "success", ""};
    case IBV_WC_LOC_LEN_ERR:
      return {"local length error", "a message was longer than the buffer that awaited it",
              report_it};
    case IBV_WC_LOC_QP_OP_ERR:
      return {"local queue pair error", "a request that this queue pair or device cannot carry out",
              "compare the device's limits (ibv_devinfo -v); if they are kept, report it"};
    case IBV_WC_LOC_EEC_OP_ERR:
      return {"local end-to-end context error", not_used, report_it};
    case IBV_WC_LOC_PROT_ERR:
      return {"local protection error",
              "a request names memory that is not registered here, or not any more", report_it};
    case IBV_WC_WR_FLUSH_ERR:
      return {"flushed", "the queue pair failed or was closed before; this is not the cause",
              "look for the first error of this rail in the log"};
    case IBV_WC_MW_BIND_ERR:
      return {"memory window bind error", "Tandem never uses memory windows", report_it};
    case IBV_WC_BAD_RESP_ERR:
      return {"bad response", "the peer's NIC answered with something that fits no request",
              "update the firmware of both NICs; check that both run the same build"};
    case IBV_WC_LOC_ACCESS_ERR:
      return {"local access error",
              "bytes arrived for a buffer whose registration does not allow local writes",
              report_it};
    case IBV_WC_REM_INV_REQ_ERR:
      return {"invalid request at the peer",
              "the peer's NIC refuses the request: too long for its buffer, or not allowed there",
              "check that both ranks run the same build; if they do, report it"};
    case IBV_WC_REM_ACCESS_ERR:
      return {"remote access error",
              "the address or key of the peer's memory is wrong, or was withdrawn meanwhile",
              "see the peer's log for an error just before; without one, report it"};
    case IBV_WC_REM_OP_ERR:
      return {"operation failed at the peer", "the peer's NIC could not complete the request",
              "see the log of the peer and the messages of its kernel (dmesg)"};
    case IBV_WC_RETRY_EXC_ERR:
      return {
          "retries exceeded: the peer's NIC does not answer",
          "cable or link down, peer gone, no route to this NIC (rail-only fabric), a wrong GID, "
          "or packets lost for lack of flow control (PFC, ECN)",
          "check the link (rdma link), reach the peer by ping from this NIC's address, compare "
          "the GIDs (tandem rails) and the NIC's counters of losses"};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {"receiver not ready: retries exceeded",
              "the peer posted no receive, though credits promised one", report_it};
    case IBV_WC_LOC_RDD_VIOL_ERR:
      return {"local reliable datagram domain violation", not_used, report_it};
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return {"invalid reliable datagram request at the peer", not_used, report_it};
    case IBV_WC_REM_ABORT_ERR:
      return {"aborted by the peer", "the peer's NIC aborted the request",
              "see the log of the peer and the messages of its kernel (dmesg)"};
    case IBV_WC_INV_EECN_ERR:
      return {"invalid end-to-end context number", not_used, report_it};
    case IBV_WC_INV_EEC_STATE_ERR:
      return {"invalid end-to-end context state", not_used, report_it};
    case IBV_WC_FATAL_ERR:
      return {"fatal device error", "the device or its driver failed",
              "see dmesg; reset the NIC or restart the machine"};
    case IBV_WC_RESP_TIMEOUT_ERR:
      return {"no response in time", "the peer's NIC accepted a request and never answered",
              "check the link (rdma link) and that the peer's process still runs"};
    case IBV_WC_GENERAL_ERR:
      return {"error of the transport or the driver", "the device does not say which",
              "see dmesg and the vendor's error code in this message"};
    case IBV_WC_TM_ERR:
      return {"tag matching error", "Tandem never uses tag matching", report_it};
    case IBV_WC_TM_RNDV_INCOMPLETE:
      return {"tag matching rendezvous incomplete", "Tandem never uses hardware tag matching",
              report_it};
  }
  return {"unknown status", "the library is newer than this program",
          "see the vendor's error code in this message"};
}

}  // namespace tandem::verbs
