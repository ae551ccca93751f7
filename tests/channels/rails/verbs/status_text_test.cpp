#include "transports/rails/verbs/status_text.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "support/text.hpp"

namespace tandem::verbs {
namespace {

using test::contains_text;
constexpr int last_status = IBV_WC_TM_RNDV_INCOMPLETE, last_event = IBV_EVENT_WQ_FATAL;

status_text of_status(int value) {
  return text_for(static_cast<ibv_wc_status>(value));
}

event_text of_event(int value) {
  return text_for(static_cast<ibv_event_type>(value));
}

TEST(StatusText, IsUniquePerStatus) {
  std::set<std::string_view> different;
  for (int value = 0; value <= last_status; ++value) {
    const status_text text = of_status(value);
    EXPECT_TRUE(different.insert(text.what).second) << text.what;
    EXPECT_FALSE(text.cause.empty()) << text.what;
    EXPECT_EQ(text.advice.empty(), value == IBV_WC_SUCCESS) << text.what;
  }
  EXPECT_FALSE(different.contains(of_status(last_status + 1).what));
}

TEST(StatusText, GivesAdvice) {
  const status_text no_answer = of_status(IBV_WC_RETRY_EXC_ERR);
  for (const std::string_view cause : {"cable", "peer gone", "rail-only", "GID", "PFC"}) {
    EXPECT_TRUE(contains_text(no_answer.cause, cause)) << cause;
  }
  EXPECT_TRUE(contains_text(of_status(IBV_WC_RNR_RETRY_EXC_ERR).advice, "report it"));
  EXPECT_TRUE(contains_text(of_status(IBV_WC_LOC_PROT_ERR).advice, "report it"));
  EXPECT_TRUE(contains_text(of_status(IBV_WC_REM_ACCESS_ERR).cause, "key of the peer's memory"));
  EXPECT_TRUE(contains_text(of_status(IBV_WC_WR_FLUSH_ERR).advice, "first error"));
}

TEST(EventText, IsUniquePerEvent) {
  std::set<std::string_view> different;
  for (int value = 0; value <= last_event; ++value) {
    const event_text text = of_event(value);
    EXPECT_TRUE(different.insert(text.what).second) << text.what;
    EXPECT_TRUE(!text.is_fatal || !text.advice.empty()) << text.what;
  }
  EXPECT_FALSE(different.contains(of_event(last_event + 1).what));
}

TEST(EventText, NamesAffectedObject) {
  EXPECT_EQ(of_event(IBV_EVENT_QP_FATAL).subject, event_subject::queue_pair);
  EXPECT_EQ(of_event(IBV_EVENT_QP_ACCESS_ERR).subject, event_subject::queue_pair);
  EXPECT_EQ(of_event(IBV_EVENT_CQ_ERR).subject, event_subject::completion_queue);
  EXPECT_EQ(of_event(IBV_EVENT_PORT_ERR).subject, event_subject::port);
  EXPECT_EQ(of_event(IBV_EVENT_GID_CHANGE).subject, event_subject::port);
  EXPECT_EQ(of_event(IBV_EVENT_DEVICE_FATAL).subject, event_subject::device);
  EXPECT_EQ(of_event(IBV_EVENT_SRQ_ERR).subject, event_subject::shared_receive_queue);
  EXPECT_EQ(of_event(IBV_EVENT_WQ_FATAL).subject, event_subject::work_queue);
  EXPECT_TRUE(of_event(IBV_EVENT_PORT_ERR).is_fatal);
  EXPECT_FALSE(of_event(IBV_EVENT_PORT_ACTIVE).is_fatal);
  EXPECT_EQ(name(event_subject::queue_pair), "queue pair");
}

}  // namespace
}  // namespace tandem::verbs
