#include "transports/rails/verbs/status_text.hpp"

namespace tandem::verbs {
namespace {

constexpr bool fatal = true;

}  // namespace

std::string_view name(event_subject subject) noexcept {
  switch (subject) {
    case event_subject::queue_pair:
      return "queue pair";
    case event_subject::completion_queue:
      return "completion queue";
    case event_subject::shared_receive_queue:
      return "shared receive queue";
    case event_subject::work_queue:
      return "work queue";
    case event_subject::port:
      return "port";
    case event_subject::device:
      return "device";
  }
  return "?";
}

event_text text_for(ibv_event_type event) noexcept {
  using enum event_subject;
  switch (event) {
    case IBV_EVENT_CQ_ERR:
      return {"completion queue overran", completion_queue, fatal,
              "this is a bug in this program: report it with the log"};
    case IBV_EVENT_QP_FATAL:
      return {"queue pair failed", queue_pair, fatal, "see dmesg; the rail reconnects"};
    case IBV_EVENT_QP_REQ_ERR:
      return {"the peer sent a request that is invalid here", queue_pair, fatal,
              "check that both ranks run the same build"};
    case IBV_EVENT_QP_ACCESS_ERR:
      return {"the peer accessed memory that it may not access", queue_pair, fatal,
              "see the peer's log; without an error there, report it"};
    case IBV_EVENT_COMM_EST:
      return {"first packet of the peer", queue_pair, false, ""};
    case IBV_EVENT_SQ_DRAINED:
      return {"send queue drained", queue_pair, false, ""};
    case IBV_EVENT_PATH_MIG:
      return {"moved to the alternate path", queue_pair, false, ""};
    case IBV_EVENT_PATH_MIG_ERR:
      return {"the alternate path could not be taken", queue_pair, false,
              "check the cabling of the other port"};
    case IBV_EVENT_DEVICE_FATAL:
      return {"device failed", device, fatal, "see dmesg; reset the NIC or restart the machine"};
    case IBV_EVENT_PORT_ACTIVE:
      return {"link is up", port, false, ""};
    case IBV_EVENT_PORT_ERR:
      return {"link is down", port, fatal, "check the cable, the switch port and ip link"};
    case IBV_EVENT_LID_CHANGE:
      return {"the subnet manager gave another LID", port, fatal,
              "lanes reconnect; a subnet manager should keep LIDs"};
    case IBV_EVENT_PKEY_CHANGE:
      return {"the partition key table changed", port, false,
              "if rails fail now: this port may be in another partition"};
    case IBV_EVENT_SM_CHANGE:
      return {"another subnet manager took over", port, false, ""};
    case IBV_EVENT_SRQ_ERR:
      return {"shared receive queue failed", shared_receive_queue, fatal, "see dmesg"};
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return {"shared receive queue runs low", shared_receive_queue, false, ""};
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return {"last receive of a failed queue pair was taken", queue_pair, false, ""};
    case IBV_EVENT_CLIENT_REREGISTER:
      return {"the subnet manager asks for new registrations", port, false, ""};
    case IBV_EVENT_GID_CHANGE:
      return {"the GID table changed", port, false,
              "if rails fail now: an address of the interface was changed"};
    case IBV_EVENT_WQ_FATAL:
      return {"work queue failed", work_queue, fatal, "see dmesg"};
  }
  return {"unknown event", device, false, "the library is newer than this program"};
}

}  // namespace tandem::verbs
